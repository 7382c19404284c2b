// Jobs: work that begins by itself. When each is due, what became of it, and starting or pausing it.
import { html, Component } from "./dom.js";
import { call, read } from "./wire.js";
import { dollars, lasting, plural, until, when, written } from "./text.js";
import { Link, Page } from "./page.js";
import { me } from "./app.js";

const EVERY = 5000;
const STATES = { __proto__: null, active: "", paused: "paused", done: "over" };
const BECAME = { __proto__: null, delivered: "delivered", silent: "nothing to say", done: "done", failed: "failed", skipped: "left out", running: "runs now", waiting: "waits to begin" };
const EMPTY = { name: "", schedule: "", prompt: "" };

export default class Jobs extends Component {
  constructor(props) { super(props); this.state = { jobs: null, said: "", done: "", draft: null, open: "" }; }
  componentDidMount() { this.load(); this.timer = setInterval(() => { if (!document.hidden) this.load(); }, EVERY); }
  componentWillUnmount() { clearInterval(this.timer); }
  async load() {
    try { this.setState({ jobs: (await read("cron.list")).jobs }); } catch (error) { this.setState({ said: error.message }); }
  }
  async manage(params, done) {
    try {
      const { message } = await call("cron.manage", params);
      this.setState({ said: "", done: done || message, ...(params.action === "add" || params.action === "edit" ? { draft: null } : {}) });
      await this.load();
    } catch (error) { this.setState({ said: error.message, done: "" }); }
  }
  render(_, { jobs, said, done, draft, open }) {
    const isReader = me.value?.scope === "read";
    return html`<${Page} title="Jobs" said=${said} loading=${!jobs}>
      ${done ? html`<p class="notice" role="status">${written(done)}</p>` : null}
      ${jobs ? html`${draft === null ? html`<p class="row"><button type="button" class="main" disabled=${isReader} onClick=${() => this.setState({ draft: EMPTY, done: "" })}>New job</button><span class="quiet">A gateway that runs begins them; what they find goes to your home chat.</span></p>`
        : html`<${Draft} draft=${draft} change=${(changes) => this.setState({ draft: { ...draft, ...changes } })} close=${() => this.setState({ draft: null, said: "" })}
            keep=${() => this.manage(draft.id ? { action: "edit", name: draft.id, prompt: draft.prompt, schedule: draft.schedule } : { action: "add", ...draft })} />`}
      ${jobs.length ? jobs.map((job) => html`<${Job} key=${job.id} job=${job} isReader=${isReader} isOpen=${open === job.id} toggle=${() => this.setState({ open: open === job.id ? "" : job.id })}
          edit=${() => this.setState({ draft: { id: job.id, name: job.name, schedule: job.said || job.schedule, prompt: job.prompt }, done: "" })} manage=${(action, words) => this.manage({ action, name: job.id }, words)} />`)
        : html`<p class="quiet">No job yet. Say it in a conversation (“every weekday at 8, tell me the weather”), or make one here.</p>`}` : null}<//>`;
  }
}

function Draft({ draft, change, keep, close }) {
  const field = (name, label, hint) => html`<label>${label}<input value=${draft[name]} placeholder=${hint} required=${name === "schedule"} onInput=${(event) => change({ [name]: event.target.value })} /></label>`;
  return html`<form class="card form" aria-label=${draft.id ? "Change a job" : "A new job"} onSubmit=${(event) => { event.preventDefault(); keep(); }}>
    ${draft.id ? html`<h2>${written(draft.name)}</h2>` : field("name", "Name", "morning news")}${field("schedule", "When", "every weekday at 8:00")}
    <label>What is to be done<textarea rows="3" required value=${draft.prompt} onInput=${(event) => change({ prompt: event.target.value })}></textarea></label>
    <div class="row"><button type="submit" class="main">Keep it</button><button type="button" onClick=${close}>Leave it</button></div></form>`;
}

class Job extends Component {
  constructor(props) { super(props); this.state = { sure: false }; }
  render({ job, isReader, isOpen, toggle, edit, manage }, { sure }) {
    const isActive = job.state === "active", next = job.next_times.map((at) => when(at));
    return html`<article class="card" aria-label=${"Job " + job.name}>
      <div class="row"><h2 class="grow">${written(job.name)}</h2>${STATES[job.state] ? html`<b class="quiet">${STATES[job.state]}</b>` : null}</div>
      <p><b>${written(job.said || job.schedule)}</b> <span class="quiet">${written(job.timezone)}</span>${isActive && next.length ? html`<br /><span class="quiet">next ${until(job.next_times[0])}: ${next.join(" · ")}</span>` : null}</p>
      <p class="asked">${written(job.prompt)}</p>
      <p class="quiet">${plural(job.runs, "run")}${job.failures ? html` · <b class="warn">failed ${job.failures} times in a row</b>` : null}</p>
      <div class="row">
        <button type="button" disabled=${isReader} onClick=${() => manage("run", job.name + " is begun by the next process that runs jobs.")}>Run now</button>
        ${job.state === "done" ? null : html`<button type="button" disabled=${isReader} onClick=${() => manage(isActive ? "pause" : "resume")}>${isActive ? "Pause" : "Go on"}</button>`}
        <button type="button" disabled=${isReader} onClick=${edit}>Change</button>
        <button type="button" aria-expanded=${isOpen ? "true" : "false"} onClick=${toggle}>What became of it</button>
        ${sure ? html`<button type="button" class="deny" onClick=${() => manage("remove", job.name + " is removed.")}>Yes, remove it</button>` : html`<button type="button" class="deny" disabled=${isReader} onClick=${() => this.setState({ sure: true })}>Remove</button>`}
      </div>${isOpen ? html`<${Runs} id=${job.id} />` : null}</article>`;
  }
}

class Runs extends Component {
  componentDidMount() { read("cron.history", { name: this.props.id, limit: 50 }).then(({ runs }) => this.setState({ runs }), (error) => this.setState({ said: error.message })); }
  render(_, { runs, said }) {
    if (!runs) return html`<p class="quiet">${said || "…"}</p>`;
    if (!runs.length) return html`<p class="quiet">It has not run yet.</p>`;
    return html`<div class="wide" tabindex="0" role="region" aria-label="Runs"><table><thead><tr><th scope="col">Due</th><th scope="col">Became</th><th scope="col">Took</th><th scope="col">Cost</th><th scope="col">Said</th></tr></thead><tbody>${runs.map((run) =>
      html`<tr key=${run.due_at}><td>${run.session_id ? html`<${Link} to=${"/c/" + encodeURIComponent(run.session_id)}>${when(run.due_at)}<//>` : when(run.due_at)}</td>
        <td class=${run.state === "failed" ? "warn" : undefined}>${BECAME[run.state] || run.state}${run.skipped > 1 ? " (" + run.skipped + ")" : ""}</td>
        <td>${run.started_at && run.ended_at ? lasting(run.ended_at - run.started_at) : ""}</td><td>${run.cost_usd == null ? "" : dollars(run.cost_usd)}</td>
        <td>${written(run.error || run.answer || "").slice(0, 300)}</td></tr>`)}</tbody></table></div>`;
  }
}
