// Charts as SVG, each also a table. Nothing here is a canvas.
import { html } from "./dom.js";

const W = 700, H = 180, LEFT = 56, BOTTOM = 22;

/** Bars per day, stacked by group. `open(day, group)` shows what is behind one; a group is null for the whole day. */
export function Bars({ days, groups, name, value, format, label, chosen, open }) {
  const sums = days.map((day) => groups.reduce((sum, group) => sum + value(day, group), 0));
  const top = Math.max(...sums, 1e-9), width = (W - LEFT) / days.length, isEmpty = !sums.some(Boolean);
  return html`<figure class="bars"><svg class="chart" viewBox=${"0 0 " + W + " " + (H + BOTTOM)} role="group" aria-label=${label}>
    ${isEmpty ? null : [0.5, 1].map((part) => html`<g key=${part}><line class="grid" x1=${LEFT} x2=${W} y1=${H - part * (H - 16)} y2=${H - part * (H - 16)} /><text x=${LEFT - 6} y=${H - part * (H - 16) + 4} text-anchor="end">${format(top * part)}</text></g>`)}
    <line x1=${LEFT} x2=${W} y1=${H} y2=${H} stroke="currentColor" opacity=".3" />
    ${isEmpty ? html`<text x=${(LEFT + W) / 2} y=${H / 2} text-anchor="middle">Nothing in these days.</text>` : null}
    ${days.map((day, at) => {
      let y = H;
      return html`<g key=${day}>${sums[at] && open ? html`<rect class=${"whole" + (chosen?.day === day ? " chosen" : "")} x=${LEFT + at * width} y="0" width=${width} height=${H} tabindex="0" role="button" aria-label=${day + ": " + format(sums[at]) + ", show the conversations"}
        onClick=${() => open(day, null)} onKeyDown=${(event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); open(day, null); } }}><title>${day}: ${format(sums[at])}</title></rect>` : null}${groups.map((group, number) => {
        const height = (value(day, group) / top) * (H - 16);
        y -= height;
        return height > 0 ? html`<rect class=${"part k" + (number % 6)} x=${LEFT + at * width + 1} y=${y} width=${Math.max(1, width - 2)} height=${height} onClick=${open && groups.length > 1 ? () => open(day, group) : () => open?.(day, null)}><title>${day}, ${name(group)}: ${format(value(day, group))}</title></rect>` : null;
      })}</g>`;
    })}
    <text x=${LEFT} y=${H + 16}>${days[0]}</text><text x=${W} y=${H + 16} text-anchor="end">${days[days.length - 1]}</text></svg>
    <figcaption class="quiet">${groups.map((group, number) => html`<span key=${group}><span class=${"key b" + (number % 6)}></span>${name(group)} </span>`)}</figcaption></figure>`;
}

export function Table({ head, rows, label }) {
  return html`<details><summary>${label} as a table</summary><div class="wide" tabindex="0" role="region" aria-label=${label}><table><thead><tr>${head.map((cell) => html`<th scope="col" key=${cell}>${cell}</th>`)}</tr></thead>
    <tbody>${rows.map((row, at) => html`<tr key=${at}>${row.map((cell, number) => html`<td key=${number}>${cell}</td>`)}</tr>`)}</tbody></table></div></details>`;
}

const DAYS = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
/** Hours by weekday: the darker, the more. */
export function Hours({ times }) {
  const most = Math.max(1, ...times.map((one) => one.messages));
  const found = new Map(times.map((one) => [one.weekday + ":" + one.hour, one.messages]));
  return html`<svg class="chart" viewBox="0 0 700 190" role="img" aria-label="Messages by weekday and hour">${DAYS.map((name, day) => html`<g key=${name}><text x="0" y=${day * 24 + 16}>${name}</text>${Array.from({ length: 24 }, (_, hour) => {
    const count = found.get(day + ":" + hour) || 0;
    return html`<rect key=${hour} class="k0" x=${40 + hour * 27} y=${day * 24} width="25" height="22" rx="3" opacity=${count ? 0.2 + 0.8 * (count / most) : 0.06}><title>${name} ${hour}:00: ${count}</title></rect>`;
  })}</g>`)}${[0, 6, 12, 18].map((hour) => html`<text key=${hour} x=${40 + hour * 27} y="184">${hour}:00</text>`)}</svg>`;
}
