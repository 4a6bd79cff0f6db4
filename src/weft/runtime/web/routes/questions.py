"""Questions without a run: plan, simulate, explain, what if."""

from __future__ import annotations

from weft.errors import InvalidInput
from weft.formats.parsing.source import decode_text, parse_json
from weft.runtime.web.answers import ANSWERS, Question, answer_changes, plain
from weft.runtime.web.documents import MAX_BATCH
from weft.runtime.web.http import Request, Response, answer_json, read_body
from weft.runtime.web.limits import Refused
from weft.runtime.web.live.openings import Openings
from weft.runtime.web.state import ServerState

QUICK = 10
"""Small questions in one request up to which no thread is worth its while."""


class QuestionRoutes:
    """Handlers that answer questions; large ones in threads, a few at once."""

    def __init__(self, state: ServerState, openings: Openings) -> None:
        self.state = state
        self.openings = openings

    async def plan(self, request: Request) -> Response:
        """Plan."""
        return await self._answer("plan", request)

    async def simulate(self, request: Request) -> Response:
        """Simulate."""
        return await self._answer("simulate", request)

    async def explain(self, request: Request) -> Response:
        """Explain."""
        return await self._answer("explain", request)

    async def whatif(self, request: Request) -> Response:
        """Say what changes would do to a problem, or to the reference plan of a run."""
        body = await self._body(request)
        content = parse_json(decode_text(body))
        if not isinstance(content, dict) or "run" not in content:
            return await self._answer("whatif", request, body)
        question = Question(content, self.state.devices)
        question.record.only(("run", "changes"))
        run_id, changes = question.record.text("run"), question.record.strings("changes")
        if self.state.runs.find(run_id) is None:
            raise Refused(404, f"there is no run '{run_id}'")
        _, before = await self.openings.of(run_id)
        if before is None:
            raise InvalidInput("this run has no plan that could be changed")
        found = await self.state.in_thread(lambda: answer_changes(before, changes, question))
        return answer_json(plain(found))

    async def _answer(self, name: str, request: Request, body: bytes = b"") -> Response:
        """Answer one question, or a list of them in the same order."""
        state = self.state
        content = parse_json(decode_text(body or await self._body(request)))
        several = content if isinstance(content, list) else [content]
        if not 0 < len(several) <= MAX_BATCH:
            raise InvalidInput(f"a list of {len(several)} questions; give 1 to {MAX_BATCH}")
        questions = [Question(one, state.devices) for one in several]

        def answered() -> Response:
            found = [plain(ANSWERS[name](question)) for question in questions]
            return answer_json({"answers": found} if isinstance(content, list) else found[0])

        if state.warm and len(questions) <= QUICK and all(q.small() for q in questions):
            return answered()
        return await self.state.in_thread(answered)

    async def _body(self, request: Request) -> bytes:
        limits = self.state
        return await read_body(request, limit=limits.max_body, patience=limits.patience)
