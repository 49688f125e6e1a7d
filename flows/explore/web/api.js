// Requests to our own server; a newer request of a kind discards the responses to older ones.

const running = new Map();

export class Refused extends Error {}

async function answered(response) {
  if (response.status === 403) throw new Refused("The token is wrong: open the address that `uttermill explore` printed.");
  // Not json(): a response cut short by a newer request must not pass for an empty one.
  const text = await response.text();
  if (response.ok) return JSON.parse(text);
  throw new Refused(said(text) ?? `the server answered ${response.status}`);
}

function said(text) {
  try {
    return JSON.parse(text).error;
  } catch {
    return null;
  }
}

async function sent(path, options) {
  try {
    return await answered(await fetch(path, options));
  } catch (error) {
    if (options.signal?.aborted) throw options.signal.reason; // whatever it broke into
    if (error instanceof TypeError) throw new Refused("The explorer does not answer; is `uttermill explore` still running?");
    throw error;
  }
}

export async function get(path, asked, kind = null) {
  let signal;
  if (kind) {
    running.get(kind)?.abort();
    const control = new AbortController();
    running.set(kind, control);
    signal = control.signal;
  }
  return sent(`api/${path}?${asked ?? ""}`, { signal });
}

let posted = Promise.resolve();

// One at a time: of two decisions on a clip, the one made last must be stored last.
export async function post(path, data) {
  const answer = posted.then(() => sent(`api/${path}`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(data),
  }));
  posted = answer.catch(() => {});
  return answer;
}

export const overtaken = (error) => error.name === "AbortError";
