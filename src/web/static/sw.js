// Keeps the page's files, so that it opens without a connection. It keeps nothing that anybody said.
const NAME = "hermes-@@DIGEST@@";
const FILES = ["@@FILES@@"];
self.addEventListener("install", (event) => {
  event.waitUntil((async () => {
    const cache = await caches.open(NAME);
    await cache.addAll([new Request("/", { cache: "reload" }), ...FILES]);
    await self.skipWaiting();
  })());
});
self.addEventListener("activate", (event) => {
  event.waitUntil((async () => {
    for (const name of await caches.keys()) if (name.startsWith("hermes-") && name !== NAME) await caches.delete(name);
    await self.clients.claim();
  })());
});
self.addEventListener("fetch", (event) => {
  const url = new URL(event.request.url);
  if (event.request.method !== "GET" || url.origin !== self.location.origin) return;
  if (url.pathname.startsWith("/static/"))
    event.respondWith(caches.match(event.request).then((kept) => kept || fetch(event.request)));
  else if (event.request.mode === "navigate" && url.pathname !== "/enter")
    event.respondWith(fetch(event.request).catch(() => caches.match("/")));
});
