// Where a browser comes in: a one-time code is exchanged for a key of its own.
const KEY = "hermes.key";
const form = document.getElementById("enter");
const said = document.getElementById("said");
/** @param {string} id @returns {any} */
const field = (id) => document.getElementById(id);
const fields = { code: field("code"), name: field("name") };

// The code is in the fragment, which no server, log or referrer sees; it leaves the address at once.
const given = new URLSearchParams(location.hash.slice(1)).get("code");
history.replaceState(null, "", "/enter");
fields.name.value = guess();

function guess() {
  const agent = navigator.userAgent;
  const browser = /Edg\//.test(agent) ? "Edge" : /Firefox\//.test(agent) ? "Firefox" : /Chrome\//.test(agent) ? "Chrome" : /Safari\//.test(agent) ? "Safari" : "Browser";
  const system = /iPhone/.test(agent) ? "iPhone" : /iPad/.test(agent) ? "iPad" : /Android/.test(agent) ? "Android" : /Mac OS X/.test(agent) ? "Mac" : /Windows/.test(agent) ? "Windows" : "Linux";
  return browser + " on " + system;
}

/** Keep the page's files for when there is no connection; this document alone may do it. */
function keepShell() {
  if (!("serviceWorker" in navigator)) return;
  const url = window.trustedTypes
    ? trustedTypes.createPolicy("hermes-worker", { createScriptURL: (path) => { if (path !== "/sw.js") throw new TypeError(path); return path; } }).createScriptURL("/sw.js")
    : "/sw.js";
  return navigator.serviceWorker.register(url).catch(() => {});
}

async function enter(code) {
  said.textContent = "One moment…";
  let answer;
  try {
    answer = await fetch("/web/keys", {
      method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ code: code.trim(), name: fields.name.value }),
    });
  } catch { said.textContent = "The server does not answer. Is hermes web running?"; return; }
  const facts = await answer.json().catch(() => ({}));
  if (!answer.ok) { said.textContent = "That code is " + (facts.error || "not taken") + ". Get another."; fields.code.focus(); return; }
  localStorage.setItem(KEY, facts.key);
  localStorage.setItem("hermes.device", facts.device_id);
  await Promise.race([keepShell(), new Promise((done) => setTimeout(done, 300))]);
  location.replace(sessionStorage.getItem("hermes.wanted") || "/");
}

form.addEventListener("submit", (event) => { event.preventDefault(); enter(fields.code.value); });
if (given) enter(given);
else fields.code.focus();
