// The conversations: the list of all, and those that are open, each kept as the server has it.
import { signal, batch } from "./dom.js";
import { call, read, on, epoch, link } from "./wire.js";
import { opened, reduce, settled, lastStored } from "./reduce.js";
import { outbox, rekey, sendThrough, onTaken, drop } from "./outbox.js";

const TAIL = 60, PAGE = 60, HELD = 4000;

export const list = signal(null);
export const needs = signal(0);
const open = new Map();
const bySid = new Map();
/** Events of sessions that no snapshot has come for yet: the server may push before it answers. */
const held = new Map();

export class Conversation {
  constructor(key) {
    this.key = signal(key);
    this.sid = "";
    this.epoch = "";
    this.state = signal(null);
    this.past = signal(null); // a page of the past that is shown instead
    this.error = signal("");
    this.breaks = new Set(); // ids of messages that begin a loaded page
    this.opening = null;
    this.loading = false;
    this.syncing = false;
    this.begun = new Set(); // ids of our messages that a turn has begun with
  }

  get isNew() { return this.key.value.startsWith("new:"); }

  /** Open it in the server; resolves to its live id. */
  async attach() {
    if (this.sid && this.epoch === epoch.value) return this.sid;
    this.opening ||= this.reopen().finally(() => { this.opening = null; });
    return this.opening;
  }

  async reopen() {
    const last = this.key.value;
    let snapshot;
    try {
      snapshot = this.isNew ? await this.create() : await read("session.resume", { session_id: last, tail: TAIL });
    } catch (error) {
      const unsent = outbox.value.some((entry) => entry.key === last);
      if (error.code === 4007 && unsent) snapshot = await this.create(); // nothing of it was stored
      else { if (!error.cut) this.error.value = error.code === 4007 ? "There is no such conversation, or it is not yours." : error.message; throw error; }
    }
    this.adopt(snapshot);
    return this.sid;
  }

  create() { return call("session.create", { tail: TAIL, ...nextChoices() }); }

  adopt(snapshot) {
    batch(() => {
      if (this.sid) bySid.delete(this.sid);
      this.sid = snapshot.session_id;
      this.epoch = snapshot.epoch;
      bySid.set(this.sid, this);
      this.error.value = "";
      this.rename(snapshot.stored_session_id);
      const kept = this.state.value?.messages || [];
      const next = opened(snapshot, kept);
      if (next.older === undefined) next.older = this.state.value.older;
      this.state.value = next;
    });
    const early = held.get(this.sid) || [];
    held.delete(this.sid);
    for (const event of early) this.take(event);
  }

  rename(key) {
    const old = this.key.value;
    if (old === key) return;
    open.delete(old);
    this.key.value = key;
    open.set(key, this);
    rekey(old, key);
    renamed(old, key);
  }

  /** An event of this conversation. */
  take(event) {
    if (this.syncing || this.state.value === null) { this.early.push(event); return; }
    if (event.type === "events.missed") { this.sync(); return; }
    const state = this.state.value;
    if (event.seq > state.seq + 1) { this.early = [event]; this.sync(); return; }
    if (event.type === "history.changed" || event.type === "session.switched") { this.state.value = { ...state, seq: event.seq }; this.refresh(); return; }
    if (event.type === "session.closed") { this.sid = ""; return; }
    const next = reduce(state, event);
    this.state.value = next;
    if (event.type === "message.start" && next.taken) { this.begun.add(next.taken); drop(next.taken); }
    if (event.type === "message.complete") { if (next.dropped) drop(next.dropped); this.settle(); changed(); }
    if (event.type === "message.start") changed();
    if (event.type === "session.info") this.rename(event.payload.stored_session_id);
  }
  early = [];

  /** Ask for what was missed since the last event. */
  async sync() {
    if (this.syncing) return;
    this.syncing = true;
    const state = this.state.value;
    try {
      const missed = await read("session.events.since", { session_id: this.sid, last_seen: state.seq, epoch: this.epoch, tail: TAIL });
      const early = this.early;
      this.early = [];
      this.syncing = false;
      if (missed.snapshot) this.adopt(missed.snapshot);
      else for (const event of missed.events) this.take(event);
      for (const event of early) if (event.seq) this.take(event);
    } catch (error) {
      this.syncing = false;
      this.early = [];
      this.sid = "";
      if (!error.cut) await this.attach().catch(() => {});
    }
  }

  /** Read all of it anew: somebody else wrote. */
  async refresh() {
    try { this.adopt(await read("session.activate", { session_id: this.sid, tail: TAIL })); } catch (error) { if (error.code === 4001) { this.sid = ""; this.attach().catch(() => {}); } }
  }

  /** Let the store's rows take the place of what events brought. */
  async settle() {
    if (!this.state.value) return; // it was closed, or is being opened again
    const after = lastStored(this.state.value.messages);
    const page = await read("conversation.messages", { id: this.key.value, after, limit: 500 }).catch(() => null);
    if (page && this.state.value && !this.state.value.running) this.state.value = settled(this.state.value, page.messages, after);
  }

  /** Load the page before the first message that is loaded. */
  async older() {
    const shown = this.past.value || this.state.value;
    if (!shown) return;
    const first = shown.messages.find((message) => message.id != null);
    if (this.loading || !shown.older || !first) return;
    this.loading = true;
    try {
      const page = await read("conversation.messages", { id: this.key.value, before: first.id, limit: PAGE, view: shown.view || "said" });
      this.breaks.add(first.id);
      const target = this.past.value ? this.past : this.state;
      const now = target.value;
      target.value = { ...now, older: page.older, messages: [...page.messages, ...now.messages] };
    } finally { this.loading = false; }
  }

  async newer() {
    const shown = this.past.value;
    if (this.loading || !shown?.newer) return;
    this.loading = true;
    try {
      const last = shown.messages[shown.messages.length - 1];
      const page = await read("conversation.messages", { id: shown.id || this.key.value, after: last.id, limit: PAGE, view: shown.view || "said" });
      if (page.messages.length) this.breaks.add(page.messages[0].id);
      this.past.value = { ...this.past.value, newer: page.newer, messages: [...this.past.value.messages, ...page.messages] };
    } finally { this.loading = false; }
  }

  /** Show it around a message, as it was said or as the model was sent it. */
  async goTo(message, view = "said", frame = null) {
    const page = await read("conversation.messages", { id: this.key.value, around: message, limit: PAGE, view });
    this.past.value = { ...page, at: message, view, frame, runs: {} };
  }
  now() { this.past.value = null; }
}

export function conversation(key) {
  let found = open.get(key);
  if (!found) { found = new Conversation(key); open.set(key, found); }
  return found;
}
export const startNew = () => conversation("new:" + Math.random().toString(36).slice(2, 10));

/** Told when a conversation is known by another id: (old, new). @type {(old: string, key: string) => void} */
let renamed = () => {};
export const onRenamed = (listener) => { renamed = listener; };

/** What the next conversation is begun with, as chosen in the settings. */
export function nextChoices() {
  try { return JSON.parse(localStorage.getItem("hermes.next")) || {}; } catch { return {}; }
}

sendThrough(async (key, anew) => {
  const found = conversation(key);
  if (anew) found.sid = "";
  const sid = await found.attach();
  return { sid, key: found.key.value };
});
onTaken((entry, status) => {
  const found = open.get(entry.key);
  if (!found?.state.value || status === "known" || status === "steered") return;
  const state = found.state.value;
  // Until its turn begins, what the server has taken is shown as waiting.
  const isShown = found.begun.has(entry.id) || state.waiting.some((one) => one.message_id === entry.id);
  if (!isShown) found.state.value = { ...state, waiting: [...state.waiting, { message_id: entry.id, text: entry.text }] };
});

on("event", (event) => {
  if (event.type === "sessions.changed") { changed(); return; }
  const found = bySid.get(event.session_id);
  if (found) { found.take(event); return; }
  const kept = held.get(event.session_id) || [];
  if (kept.length < HELD) held.set(event.session_id, [...kept, event]);
});

on("online", () => {
  held.clear();
  reload();
  read("sessions.watch").catch(() => {});
  for (const one of open.values()) {
    if (!one.state.value) continue;
    if (one.epoch === epoch.value && one.sid) one.sync();
    else if (!one.isNew) { one.sid = ""; one.attach().catch(() => {}); }
  }
});

let reloading = 0;
/** The list may be different now; read once for changes that come together. */
export function changed() {
  if (!reloading) reloading = setTimeout(() => { reloading = 0; reload(); }, 250);
}
export async function reload() {
  if (link.value !== "online") return;
  const [rows, inbox] = await Promise.all([read("session.list", { limit: 200 }), read("approval.inbox", { counts: true }).catch(() => null)]);
  list.value = rows.sessions;
  if (inbox) needs.value = inbox.needs;
}
