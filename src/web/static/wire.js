// The socket to the session server: requests with answers, events, and coming back after a cut.
//
// A read is sent again by itself after a cut; anything else fails with `cut`, and whoever sent it
// decides (messages have an id and are sent again by the outbox). The socket goes to where the page
// came from and nowhere else.
import { signal } from "./dom.js";

export const link = signal("connecting"); // connecting, online, offline or refused
export const epoch = signal("");
export const digest = signal("");
const KEY = "hermes.key";
const PROTOCOL = "hermes.v1";
const FIRST_WAIT = 150, LONGEST_WAIT = 4000, SILENCE = 20000;

let socket = null, number = 0, wait = FIRST_WAIT, timer = 0, heardAt = 0;
const waiting = new Map();
const listeners = { event: new Set(), online: new Set() };

export class CallError extends Error {
  constructor(message, code, cut = false) { super(message); this.code = code; this.cut = cut; }
}

export const hasKey = () => Boolean(localStorage.getItem(KEY));
export function forgetKey() { localStorage.removeItem(KEY); }
export const on = (what, listener) => { listeners[what].add(listener); return () => listeners[what].delete(listener); };

/** Ask for something that changes nothing; it is asked again after a cut. @param {string} method @returns {Promise<any>} */
export const read = (method, params = {}) => ask(method, params, true);
/** Have something done; fails with `cut` if nobody knows whether it was. @param {string} method @returns {Promise<any>} */
export const call = (method, params = {}) => ask(method, params, false);

function ask(method, params, again) {
  return new Promise((resolve, reject) => {
    const id = ++number;
    const entry = { method, params, again, resolve, reject, sent: false };
    if (!again && link.value !== "online") return reject(new CallError("Not connected.", 0, true));
    waiting.set(id, entry);
    if (link.value === "online") put(id, entry);
  });
}

function put(id, entry) {
  entry.sent = true;
  socket.send(JSON.stringify({ jsonrpc: "2.0", id, method: entry.method, params: entry.params }));
}

export function connect() {
  clearTimeout(timer);
  if (socket && socket.readyState <= 1) return;
  const key = localStorage.getItem(KEY);
  if (!key) { location.replace("/enter"); return; }
  if (link.value !== "offline") link.value = "connecting";
  const scheme = location.protocol === "https:" ? "wss:" : "ws:";
  const mine = new WebSocket(scheme + "//" + location.host + "/web/socket", [PROTOCOL, PROTOCOL + ".key." + key]);
  socket = mine;
  let opened = false;
  mine.onmessage = (message) => {
    if (socket !== mine) return;
    heardAt = Date.now();
    const frame = JSON.parse(message.data);
    if (frame.method === "event") {
      if (frame.params.type === "gateway.ready") { opened = true; ready(frame.params.payload); }
      else for (const listener of [...listeners.event]) listener(frame.params);
      return;
    }
    const entry = waiting.get(frame.id);
    waiting.delete(frame.id);
    if (!entry) return;
    if (frame.error) entry.reject(new CallError(frame.error.message, frame.error.code));
    else entry.resolve(frame.result);
  };
  mine.onclose = (event) => { if (socket === mine) lost(event.code, opened, key); };
}

function ready(facts) {
  wait = FIRST_WAIT;
  digest.value = facts.digest || "";
  epoch.value = facts.replay_epoch;
  link.value = "online";
  for (const [id, entry] of waiting) if (!entry.sent) put(id, entry);
  for (const listener of [...listeners.online]) listener();
}

async function lost(code, opened, key) {
  socket = null;
  link.value = "offline";
  for (const [id, entry] of [...waiting]) {
    if (entry.again) entry.sent = false;
    else { waiting.delete(id); entry.reject(new CallError("The connection was cut.", 0, true)); }
  }
  if (code === 4401 || (!opened && (await isRefused(key)))) { link.value = "refused"; return; }
  timer = setTimeout(connect, wait * (0.75 + Math.random() / 2));
  wait = Math.min(LONGEST_WAIT, wait * 1.7);
}

/** Whether the server is there and does not know this key any more. */
async function isRefused(key) {
  try {
    const answer = await fetch("/web/device", { headers: { authorization: "Bearer " + key }, cache: "no-store" });
    return answer.status === 401;
  } catch { return false; }
}

/** Come back at once, as when a laptop is opened again. */
export function hurry() {
  if (link.value === "refused") return;
  if (link.value === "offline") { wait = FIRST_WAIT; connect(); }
  else if (link.value === "online" && Date.now() - heardAt > SILENCE) {
    const old = socket;
    const given = setTimeout(() => old.close(), 3000);
    read("session.most_recent").then(() => clearTimeout(given), () => clearTimeout(given));
  }
}
addEventListener("online", hurry);
document.addEventListener("visibilitychange", () => { if (!document.hidden) hurry(); });

// For tests: lose the connection, as with a cable that is pulled.
window.hermesCut = () => socket?.close();
