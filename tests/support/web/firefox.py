"""Firefox for tests, by WebDriver BiDi over a WebSocket; no other program is needed."""

from __future__ import annotations

import asyncio
import base64
import json
import queue
import re
import shutil
import subprocess
import threading
import time

FIREFOX = shutil.which("firefox-esr") or shutil.which("firefox")

PREFERENCES = """
user_pref("layout.css.prefers-color-scheme.content-override", {scheme});
user_pref("browser.shell.checkDefaultBrowser", false);
user_pref("datareporting.policy.dataSubmissionEnabled", false);
user_pref("toolkit.telemetry.enabled", false);
user_pref("app.update.enabled", false);
user_pref("network.captive-portal-service.enabled", false);
user_pref("network.connectivity-service.enabled", false);
user_pref("remote.prefs.recommended", true);
"""


class Firefox:
    """One headless Firefox with one tab; `said` has what the console of its page said."""

    def __init__(self, folder, *, dark=False):
        self.said = []
        self._profile = folder / "profile"
        self._profile.mkdir()
        text = PREFERENCES.format(scheme=0 if dark else 1)
        (self._profile / "user.js").write_text(text, encoding="ascii")
        self._number = 0
        self._answers = {}
        self._come = threading.Condition()

    def __enter__(self):
        command = [FIREFOX, "--headless", "--no-remote", "--profile", str(self._profile)]
        self._process = subprocess.Popen(
            [*command, "--remote-debugging-port", "0", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        port = None
        for line in self._process.stderr:
            found = re.search(r"listening on ws://127\.0\.0\.1:(\d+)", line)
            if found:
                port = int(found.group(1))
                break
        assert port, "Firefox did not start"
        threading.Thread(target=self._drain, daemon=True).start()
        ready = queue.SimpleQueue()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._speak(port, ready)), daemon=True
        )
        self._thread.start()
        assert ready.get(timeout=60) is None
        self._do("session.new", capabilities={})
        self._do("session.subscribe", events=["log.entryAdded"])
        self._tab = self._do("browsingContext.getTree")["contexts"][0]["context"]
        return self

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._link.close)
        self._thread.join(10)
        self._process.kill()
        self._process.wait()
        self._process.stderr.close()

    # -- pages --------------------------------------------------------------

    def open(self, url, ready, *, width=1400, height=900):
        """Open a page and wait until an element is there."""
        self.said.clear()
        size = {"width": width, "height": height}
        self._do("browsingContext.setViewport", context=self._tab, viewport=size)
        self._do("browsingContext.navigate", context=self._tab, url=url, wait="complete")
        selector, shown = re.subn(r":visible$", "", ready)
        selector, _, text = selector.partition(":text(")
        wanted = json.dumps([selector, text.strip("')"), bool(shown)])
        limit = time.monotonic() + 60
        while not self.call(f"() => ({_THERE})({wanted})"):
            assert time.monotonic() < limit, f"{url}: no {ready}"
            time.sleep(0.05)
        time.sleep(0.15)

    def call(self, function):
        """Call a JavaScript function in the page; return its value, through JSON."""
        answer = self._do(
            "script.evaluate",
            expression=f"JSON.stringify(({function})() ?? null)",
            target={"context": self._tab},
            awaitPromise=True,
        )
        assert answer["type"] == "success", answer["exceptionDetails"]["text"]
        return json.loads(answer["result"]["value"])

    def wheel(self, selector, delta):
        """Turn the wheel over the middle of an element."""
        x, y = self.call(f"() => ({_MIDDLE})({json.dumps(selector)})")
        scroll = {"type": "scroll", "x": x, "y": y, "deltaX": 0, "deltaY": delta}
        self._act({"type": "wheel", "id": "wheel", "actions": [scroll]})

    def press(self, key):
        """Press a key."""
        actions = [{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]
        self._act({"type": "key", "id": "keys", "actions": actions})

    def pdf_bytes(self):
        """Return the size of the page as a PDF."""
        return len(base64.b64decode(self._do("browsingContext.print", context=self._tab)["data"]))

    # -- the protocol -------------------------------------------------------

    def _act(self, source):
        self._do("input.performActions", context=self._tab, actions=[source])
        time.sleep(0.1)

    def _do(self, method, **params):
        self._number += 1
        number = self._number
        message = json.dumps({"id": number, "method": method, "params": params})
        asyncio.run_coroutine_threadsafe(self._send(message), self._loop).result(60)
        with self._come:
            assert self._come.wait_for(lambda: number in self._answers, 90), f"no answer: {method}"
            answer = self._answers.pop(number)
        assert answer["type"] == "success", f"{method}: {answer.get('message')}"
        return answer["result"]

    async def _send(self, message):
        await self._link.write_message(message)

    async def _speak(self, port, ready):
        from tornado.websocket import websocket_connect

        self._loop = asyncio.get_running_loop()
        self._link = await websocket_connect(
            f"ws://127.0.0.1:{port}/session", max_message_size=1 << 28
        )
        ready.put(None)
        while (text := await self._link.read_message()) is not None:
            message = json.loads(text)
            if message.get("method") == "log.entryAdded":
                self.said.append(message["params"]["text"])
            with self._come:
                if "id" in message:
                    self._answers[message["id"]] = message
                self._come.notify_all()

    def _drain(self):
        for _ in self._process.stderr:
            pass


_THERE = """([selector, text, shown]) => [...document.querySelectorAll(selector)]
  .some((e) => e.textContent.includes(text) && (!shown || e.checkVisibility()))"""
_MIDDLE = """(selector) => {
  const found = document.querySelector(selector);
  found.scrollIntoView({ block: "center" });
  const box = found.getBoundingClientRect();
  return [Math.round(box.x + box.width / 2), Math.round(box.y + box.height / 2)];
}"""
