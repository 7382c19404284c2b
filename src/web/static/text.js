// Small things about text, times and numbers. Nothing here touches the page.

const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb]|\ud83a[\udc00-\udfff]|\udb40[\udc00-\udfff]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;
const ANSI = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[@-Z\\-_])/g;

/** A text with every character written out that could hide or turn round what is read. */
export const written = (text) =>
  String(text).replace(HIDDEN, (found) =>
    "⟦U+" + found.codePointAt(0).toString(16).toUpperCase().padStart(4, "0") + "⟧");

/** A tool's output without the colours of terminals. */
export const plain = (text) => String(text).replace(ANSI, "").replace(/\r\n?/g, "\n");

/** The text of a message's content, whatever its form. */
export function textOf(content) {
  if (content == null) return "";
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return JSON.stringify(content);
  return content.filter((part) => part && part.type === "text").map((part) => part.text).join("\n");
}

/** The pictures of a message's content that may be shown: those that it carries itself. */
export function picturesOf(content) {
  if (!Array.isArray(content)) return [];
  return content
    .map((part) => part?.image_url?.url || part?.url || "")
    .filter((url) => /^data:image\/(png|jpeg|gif|webp);base64,/.test(url));
}

const two = (number) => String(number).padStart(2, "0");
export const clock = (seconds) => {
  const at = new Date(seconds * 1000);
  return two(at.getHours()) + ":" + two(at.getMinutes());
};
export const dayKey = (seconds) => {
  const at = new Date(seconds * 1000);
  return at.getFullYear() + "-" + two(at.getMonth() + 1) + "-" + two(at.getDate());
};
export function dayName(seconds, now = Date.now() / 1000) {
  if (dayKey(seconds) === dayKey(now)) return "Today";
  if (dayKey(seconds) === dayKey(now - 86400)) return "Yesterday";
  if (dayKey(seconds) === dayKey(now + 86400)) return "Tomorrow";
  return new Date(seconds * 1000).toLocaleDateString("en-GB", { day: "numeric", month: "long", year: "numeric" });
}
export const when = (seconds) =>
  seconds == null ? "" : (dayKey(seconds) === dayKey(Date.now() / 1000) ? "" : dayName(seconds) + ", ") + clock(seconds);

export function ago(seconds, now = Date.now() / 1000) {
  const passed = Math.max(0, now - seconds);
  if (passed < 60) return "now";
  if (passed < 3600) return Math.floor(passed / 60) + " min";
  if (passed < 86400) return Math.floor(passed / 3600) + " h";
  return Math.floor(passed / 86400) + " d";
}
/** How long it is until then. */
export function until(seconds, now = Date.now() / 1000) {
  const left = seconds - now;
  if (left < 60) return "now";
  if (left < 3600) return "in " + Math.round(left / 60) + " min";
  if (left < 86400) return "in " + Math.round(left / 3600) + " h";
  return "in " + Math.round(left / 86400) + " d";
}
export const lasting = (seconds) =>
  seconds == null ? "" : seconds < 1 ? Math.round(seconds * 1000) + " ms" : seconds < 60 ? seconds.toFixed(1) + " s"
    : Math.floor(seconds / 60) + " min " + Math.round(seconds % 60) + " s";
export const short = (number) =>
  number == null ? "–" : number < 1000 ? String(number) : number < 1e6 ? (number / 1000).toFixed(1) + "k" : (number / 1e6).toFixed(1) + "M";
export const dollars = (amount) => (amount == null ? "–" : "$" + amount.toFixed(amount < 1 ? 4 : 2));
export const bytes = (number) =>
  number == null ? "–" : number < 1024 ? number + " B" : number < 1048576 ? (number / 1024).toFixed(0) + " kB" : (number / 1048576).toFixed(1) + " MB";
export const plural = (number, word) => number + " " + word + (number === 1 ? "" : "s");

/** An id that nobody else makes. */
export function newId() {
  const random = crypto.getRandomValues(new Uint8Array(12));
  return Date.now().toString(36) + "-" + Array.from(random, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
