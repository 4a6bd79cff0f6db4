"""The application of a server: the table of routes with their handlers."""

from __future__ import annotations

from weft.runtime.web.entrance import Entrance
from weft.runtime.web.http import Routed
from weft.runtime.web.live.openings import Openings
from weft.runtime.web.openapi import ROUTES
from weft.runtime.web.routes.pages import PageRoutes
from weft.runtime.web.routes.questions import QuestionRoutes
from weft.runtime.web.routes.runs import RunRoutes
from weft.runtime.web.state import ServerState


def make_app(state: ServerState) -> Entrance:
    """Return the application: token and rate first, then the routes."""
    openings = Openings(state)
    pages = PageRoutes(state, openings)
    groups = (RunRoutes(state, openings), QuestionRoutes(state, openings), pages)
    handlers = {
        r.handler: next(getattr(group, r.handler) for group in groups if hasattr(group, r.handler))
        for r in ROUTES
    }
    routes = [(r.method, r.path, handlers[r.handler]) for r in ROUTES]
    if state.page is not None:
        routes += [("GET", path, pages.show_page) for path in ("/", "/runs/{id}")]
    return Entrance(Routed(routes), state)
