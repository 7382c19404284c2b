// Tool calls: a line for a step, opened to a card for each call.
import { html, Component } from "./dom.js";
import { lasting, plain, plural, textOf, written } from "./text.js";

const LARGEST = 250000; // lines times lines that are compared one by one
const CHANGES = ["old_string", "new_string", "patch", "content"]; // shown as lines with a sign instead
const HEADS = ["command", "path", "pattern", "query", "url", "goal", "name", "action"];

function parsed(call) {
  if (typeof call.arguments !== "string") return call.arguments || {};
  try { return JSON.parse(call.arguments) || {}; } catch { return { arguments: call.arguments }; }
}
function headline(args) {
  for (const name of HEADS) if (typeof args[name] === "string" && args[name]) return args[name].split("\n")[0].slice(0, 120);
  return "";
}
/** What a change of a file looks like, as lines with a sign; null if the call changes none. */
function changeOf(args) {
  if (typeof args.old_string === "string" && typeof args.new_string === "string") return changed(linesOf(args.old_string), linesOf(args.new_string));
  if (typeof args.patch === "string") return linesOf(args.patch);
  if (typeof args.content === "string" && typeof args.path === "string") return linesOf(args.content).map((line) => "+" + line);
  return null;
}
const linesOf = (text) => (text.endsWith("\n") ? text.slice(0, -1) : text).split("\n");
/** Lines with their signs: what both have stays where it is, by their longest common part. */
function changed(before, after) {
  if (before.length * after.length > LARGEST) return [...before.map((line) => "-" + line), ...after.map((line) => "+" + line)];
  const width = after.length + 1, common = new Uint16Array((before.length + 1) * width);
  for (let at = before.length - 1; at >= 0; at--)
    for (let other = after.length - 1; other >= 0; other--)
      common[at * width + other] = before[at] === after[other] ? common[(at + 1) * width + other + 1] + 1 : Math.max(common[(at + 1) * width + other], common[at * width + other + 1]);
  const lines = [];
  let at = 0, other = 0;
  while (at < before.length || other < after.length) {
    if (at < before.length && other < after.length && before[at] === after[other]) { lines.push(" " + before[at]); at++; other++; }
    else if (other >= after.length || (at < before.length && common[(at + 1) * width + other] >= common[at * width + other + 1])) lines.push("-" + before[at++]);
    else lines.push("+" + after[other++]);
  }
  return lines;
}
export const Diff = ({ lines }) => html`<pre class="diff" tabindex="0">${lines.slice(0, 2000).map((line) =>
  html`<span class=${line.startsWith("+") ? "added" : line.startsWith("-") ? "removed" : line.startsWith("@@") ? "where" : undefined}>${written(line)}${"\n"}</span>`)}</pre>`;

/** All calls of a step. */
export class Tools extends Component {
  constructor(props) { super(props); this.state = { open: false }; }
  render({ calls, live }, { open }) {
    const running = calls.filter((call) => !call.done);
    const failed = calls.filter((call) => call.failed || call.unknown).length;
    const seconds = calls.reduce((sum, call) => sum + (call.seconds || 0), 0);
    const first = calls[calls.length - 1];
    const what = calls.length === 1 ? first.name : plural(calls.length, "tool");
    const isLive = live && running.length > 0;
    return html`<div class=${"tools" + (isLive ? " live" : "")}>
      <button type="button" class="line" aria-expanded=${open ? "true" : "false"} onClick=${() => this.setState({ open: !open })}>
        <span class="sign" aria-hidden="true">${open ? "▾" : "▸"}</span><b>${written(what)}</b>
        <span class="head">${written(headline(parsed(first)))}</span>
        <span class="quiet">${isLive ? "running" : seconds ? lasting(seconds) : ""}${failed ? " · " + failed + " failed" : ""}</span></button>
      ${isLive && first.progress ? html`<p class="quiet progress">${written(plain(first.progress).slice(-300))}</p>` : null}
      ${open ? calls.map((call) => html`<${Card} key=${call.id} call=${call} live=${live} />`) : null}
    </div>`;
  }
}

export class Card extends Component {
  render({ call, live }, { all }) {
    const args = parsed(call), change = changeOf(args);
    const shown = Object.entries(args).filter(([name]) => !change || !CHANGES.includes(name));
    const result = plain(textOf(call.result));
    const long = result.length > 4000 && !all;
    return html`<article class="card tool">
      <h4>${written(call.name)}${call.seconds != null ? html` <span class="quiet">${lasting(call.seconds)}</span>` : null}</h4>
      ${shown.length ? html`<dl>${shown.map(([name, value]) => html`<dt>${written(name)}</dt><dd>${written(typeof value === "string" ? value : JSON.stringify(value)).slice(0, 4000)}</dd>`)}</dl>` : null}
      ${change ? html`<${Diff} lines=${change} />` : null}
      ${call.unknown ? html`<p class="warn">Its process died while it ran: nobody knows whether it took effect.</p>` : null}
      ${call.done ? (result ? html`<pre tabindex="0" class=${call.failed ? "output failed" : "output"}>${written(long ? result.slice(0, 4000) : result)}</pre>
        ${long ? html`<button type="button" onClick=${() => this.setState({ all: true })}>All ${result.length} characters</button>` : null}` : html`<p class="quiet">No output.</p>`)
        : html`<p class="quiet">${live ? "Running…" : "No result is stored."}</p>`}
    </article>`;
  }
}
