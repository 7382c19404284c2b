// What was used: cost, tokens and messages per day, by model or person; tools, sources, hours.
import { html, Component } from "./dom.js";
import { read } from "./wire.js";
import { Bars, Hours, Table } from "./charts.js";
import { dollars, short, dayKey, written } from "./text.js";
import { list } from "./conversations.js";
import { follow } from "./page.js";
import { me } from "./app.js";

const MEASURES = [["cost_usd", "Cost", dollars], ["tokens", "Tokens", short], ["messages", "Messages", short]];

export default class Usage extends Component {
  constructor(props) { super(props); this.state = { days: 30, by: "model", measure: "cost_usd", found: null, said: "", day: null }; }
  componentDidMount() { this.load(); }
  async load(days = this.state.days, by = this.state.by) {
    this.setState({ days, by });
    try { this.setState({ found: await read("insights.activity", { days, by }), said: "" }); } catch (error) { this.setState({ said: error.message }); }
  }
  render(_, { days, by, measure, found, said, day }) {
    if (!found) return html`<section class="page"><div class="inner"><h1>Usage</h1><p class="quiet">${said || "…"}</p></div></section>`;
    const now = Date.now() / 1000, all = Array.from({ length: days }, (_, at) => dayKey(now - (days - 1 - at) * 86400));
    const [, label, format] = MEASURES.find(([name]) => name === measure);
    const groups = measure === "messages" ? ["messages"] : [...new Set(found.spent.map((part) => part.group))];
    const values = new Map(found.spent.map((part) => [part.day + "\0" + part.group, part]));
    const value = (one, group) => (measure === "messages" ? found.messages[one] || 0 : values.get(one + "\0" + group)?.[measure] || 0);
    const since = (back) => { const from = dayKey(now - (back - 1) * 86400); return { cost: sum(found.spent, from, "cost_usd"), tokens: sum(found.spent, from, "tokens"), messages: Object.entries(found.messages).filter(([one]) => one >= from).reduce((total, [, count]) => total + count, 0) }; };
    const tiles = [["Today", since(1)], ["7 days", since(7)], [days + " days", since(days)]];
    const that = day && (list.value || []).filter((row) => dayKey(row.last_active || row.started_at) >= day && dayKey(row.started_at) <= day);
    return html`<section class="page"><div class="inner"><h1>Usage</h1>
      <div class="tiles">${tiles.map(([name, sums]) => html`<div class="card tile" key=${name}><span class="quiet">${name}</span><b>${dollars(sums.cost)}</b>${short(sums.tokens)} tokens · ${sums.messages} messages</div>`)}</div>
      <div class="chips"><span role="group" aria-label="Measure" class="row">${MEASURES.map(([name, text]) => html`<button type="button" key=${name} aria-pressed=${measure === name ? "true" : "false"} onClick=${() => this.setState({ measure: name })}>${text}</button>`)}</span>
        <span role="group" aria-label="Days" class="row">${[7, 30, 90, 365].map((number) => html`<button type="button" key=${number} aria-pressed=${days === number ? "true" : "false"} onClick=${() => this.load(number)}>${number} d</button>`)}</span>
        ${me.value?.role === "operator" ? html`<span role="group" aria-label="By" class="row">${["model", "person"].map((name) => html`<button type="button" key=${name} aria-pressed=${by === name ? "true" : "false"} onClick=${() => this.load(days, name)}>by ${name}</button>`)}</span>` : null}</div>
      <h2>${label} per day</h2><${Bars} days=${all} groups=${groups} value=${value} format=${format} label=${label + " per day"} open=${(one) => this.setState({ day: one })} />
      <${Table} label=${label + " per day"} head=${["Day", ...groups.map((group) => group || "–")]} rows=${all.map((one) => [one, ...groups.map((group) => format(value(one, group)))])} />
      ${day ? html`<section aria-live="polite"><h2>Conversations of ${day}</h2>${that.length ? html`<ul class="hits">${that.map((row) => { const address = "/c/" + encodeURIComponent(row.id); return html`<li key=${row.id}><a href=${address} onClick=${(event) => follow(event, address)}>${written(row.title || row.preview || "Untitled")} <span class="quiet">${row.source}</span></a></li>`; })}</ul>` : html`<p class="quiet">None of the newest ones.</p>`}</section>` : null}
      <h2>Tools</h2><${Rows} rows=${found.tools.map((tool) => [tool.name, tool.uses])} head=${["Tool", "Uses"]} />
      <h2>Sources</h2><${Rows} rows=${found.sources.map((source) => [source.name, source.messages])} head=${["Source", "Messages"]} />
      <h2>When you write</h2><${Hours} times=${found.times} /><${Table} label="Messages by weekday and hour" head=${["Weekday", "Hour", "Messages"]} rows=${found.times.map((one) => [["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"][one.weekday], one.hour + ":00", one.messages])} />
    </div></section>`;
  }
}
const sum = (parts, from, name) => parts.filter((part) => part.day >= from).reduce((total, part) => total + part[name], 0);
const Rows = ({ rows, head }) => (rows.length ? html`<table><thead><tr>${head.map((cell) => html`<th scope="col" key=${cell}>${cell}</th>`)}</tr></thead><tbody>${rows.map((row) => html`<tr key=${row[0]}><td>${written(row[0])}</td><td class="to-right">${row[1]}</td></tr>`)}</tbody></table>` : html`<p class="quiet">None.</p>`);
