// Events of a server, by fetch: unlike EventSource it sends the token as a header.
const TOKEN_KEY = "weft-token";

// The token comes in the fragment, which browsers do not send, and leaves the address at once.
function ownToken() {
  const found = /[#&]token=([^&]*)/.exec(location.hash);
  if (found) {
    sessionStorage.setItem(TOKEN_KEY, decodeURIComponent(found[1]));
    history.replaceState(null, "", location.pathname + location.search);
  }
  return sessionStorage.getItem(TOKEN_KEY) || "";
}

async function ask(path, content) {
  const headers = { authorization: `Bearer ${ownToken()}` };
  const answer = await fetch(
    path,
    content === undefined
      ? { headers }
      : { method: "POST", headers, body: JSON.stringify(content) },
  );
  const found = await answer.json();
  if (!answer.ok)
    throw Object.assign(new Error(found.error || `status ${answer.status}`), {
      status: answer.status,
    });
  return found;
}

const pause = (seconds) => new Promise((go) => setTimeout(go, seconds * 1000));

// Read events until one ends the stream; after a break, go on behind the last one.
async function follow(path, take, tell) {
  let last = "0",
    over = false,
    wait = 0.25;
  while (!over) {
    try {
      const answer = await fetch(path, {
        headers: { authorization: `Bearer ${ownToken()}`, "last-event-id": last },
        cache: "no-store",
      });
      if (answer.status === 401) {
        tell("token", "The token is missing or wrong: open the address that was printed.");
        return;
      }
      if (answer.status === 404) {
        tell("ended", "There is no such run.");
        return;
      }
      if (!answer.ok) throw new Error(`status ${answer.status}`);
      tell("live", "live");
      wait = 0.25;
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      for (
        let text = "", part = await reader.read();
        !part.done && !over;
        part = await reader.read()
      ) {
        text += part.value;
        const blocks = text.split("\n\n");
        text = blocks.pop();
        for (const block of blocks) {
          const field = (name) => (new RegExp(`^${name}: (.*)$`, "m").exec(block) || [])[1];
          if (field("data") === undefined) continue;
          if (field("id")) last = field("id");
          const kind = field("event");
          take(kind, JSON.parse(field("data")));
          over = over || kind === "ended";
        }
      }
    } catch (error) {
      if (error instanceof SyntaxError) throw error;
    }
    if (over) return;
    tell("lost", "The server does not answer; trying again …");
    await pause(wait);
    wait = Math.min(5, wait * 1.6);
  }
}
