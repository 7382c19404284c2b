// What was typed and is not acknowledged yet, kept in the browser until it is.
//
// Each message has an id of ours, under which the server takes it once, however often it is sent.
import { signal } from "./dom.js";
import { call, link, on } from "./wire.js";
import { newId } from "./text.js";

const STORE = "hermes.outbox";
const DRAFTS = "hermes.draft.";

function load() {
  // What was tried before this page was loaded may have arrived: it is not shown before that is known.
  try { return (JSON.parse(localStorage.getItem(STORE)) || []).map((entry) => ({ ...entry, doubt: entry.tried > 0 })); } catch { return []; }
}
/**
 * @typedef {{id: string, key: string, text: string, at: number, busy: string, tried: number, offline: boolean, doubt?: boolean, failed?: string}} Entry
 * `key` is the stored conversation, or "new:…" before it has one.
 */
export const outbox = signal(load());
/** @param {Entry[]} entries */
function keep(entries) {
  outbox.value = entries;
  localStorage.setItem(STORE, JSON.stringify(entries));
}
const change = (id, facts) => keep(outbox.value.map((entry) => (entry.id === id ? { ...entry, ...facts } : entry)));
export const drop = (id) => { if (outbox.value.some((entry) => entry.id === id)) keep(outbox.value.filter((entry) => entry.id !== id)); };
export const rekey = (from, to) =>
  keep(outbox.value.map((entry) => (entry.key === from ? { ...entry, key: to } : entry)));

// Another tab may have sent some of it.
addEventListener("storage", (event) => { if (event.key === STORE) outbox.value = load(); });

let open = null; // (key) → Promise of the live session's id; given by `sendThrough`
let sending = false, wanted = false;

export function sendThrough(opener) { open = opener; on("online", flush); }

/** Send a message: at once, or when there is a connection. */
export function send(key, text, busy = "", extra = {}) {
  const entry = { id: newId(), key, text, at: Date.now() / 1000, busy, tried: 0, offline: link.value !== "online", ...extra };
  keep([...outbox.value, entry]);
  flush();
  return entry.id;
}

/** Send everything that waits, one after the other, in the order in which it was typed. */
export async function flush() {
  wanted = true;
  if (sending) return;
  sending = true;
  try {
    while (wanted) {
      wanted = false;
      for (const { id } of outbox.value) {
        if (link.value !== "online") return;
        const entry = outbox.value.find((one) => one.id === id);
        if (!entry || entry.failed) continue;
        if (!(await sendOne(entry))) return;
      }
    }
  } finally { sending = false; }
}

async function sendOne(entry, anew = false) {
  try {
    const { sid, key } = await open(entry.key, anew);
    if (key !== entry.key) rekey(entry.key, key);
    change(entry.id, { tried: entry.tried + 1 });
    const params = { session_id: sid, text: entry.text, message_id: entry.id };
    // What was typed while nobody could answer must not interrupt itself.
    if (entry.busy || entry.offline) params.busy = entry.busy || "queue";
    const answer = await call("prompt.submit", params);
    acknowledged({ ...entry, key }, answer.status);
    return true;
  } catch (error) {
    if (error.cut) { change(entry.id, { doubt: outbox.value.find((one) => one.id === entry.id)?.tried > 0 }); return false; }
    if (error.code === 4001 && !anew) return sendOne(entry, true); // the live session is gone; `open` makes another
    change(entry.id, { failed: error.message });
    return true;
  }
}

const taken = new Set();
/** Told of every message that the server has taken: (entry, status). */
export const onTaken = (listener) => taken.add(listener);
function acknowledged(entry, status) {
  for (const listener of taken) listener(entry, status);
  drop(entry.id);
}
export const again = (id) => { change(id, { failed: undefined }); flush(); };

export const draft = (key) => localStorage.getItem(DRAFTS + key) || "";
export const keepDraft = (key, text) => (text ? localStorage.setItem(DRAFTS + key, text) : localStorage.removeItem(DRAFTS + key));
