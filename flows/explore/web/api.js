// Requests to our own server; a newer request of a kind makes the answers to older ones void.

const running = new Map();

export class Refused extends Error {}

async function answered(response) {
  if (response.status === 403) throw new Refused("The token is wrong: open the address that `uttermill explore` printed.");
  const data = await response.json().catch(() => ({ error: `the server answered ${response.status}` }));
  if (!response.ok) throw new Refused(data.error);
  return data;
}

async function sent(path, options) {
  try {
    return await answered(await fetch(path, options));
  } catch (error) {
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

export async function post(path, data) {
  return sent(`api/${path}`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(data),
  });
}

export const overtaken = (error) => error.name === "AbortError";
