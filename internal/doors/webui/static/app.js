// The script of the web UI. Every page and form works without it. It asks for the page again
// when something on it changed, keeps answers off while a page may be out of date, and adds
// keys. It makes no markup out of text: documents are parsed by XMLHttpRequest, where no
// script of theirs runs.
"use strict";
(() => {
  const body = document.body, bar = document.getElementById("live"), says = document.getElementById("live-text");
  const settle = 500; // ms in which a card that appeared or moved takes no answer

  // Answers: off until the card has been still for a while, and while the page is not live.
  let stale = "", since = 0, timer = 0, place = "";
  const forms = () => document.querySelectorAll("form[data-answer]");
  const off = () => stale !== "" || performance.now() < since + settle;
  function paint() {
    const no = String(off());
    for (const f of forms()) for (const b of f.querySelectorAll("button")) b.setAttribute("aria-disabled", no);
    bar.hidden = stale === "";
    if (says.textContent !== stale) says.textContent = stale;
    clearTimeout(timer);
    if (stale === "" && off()) timer = setTimeout(paint, since + settle - performance.now() + 5);
  }
  function moved() {
    const card = document.getElementById("card"), form = forms()[0];
    const at = card && form ? card.dataset.digest + " " + Math.round(form.getBoundingClientRect().top + scrollY) : "";
    if (at !== place) { place = at; since = performance.now(); }
    paint();
  }
  addEventListener("resize", moved);
  document.addEventListener("toggle", moved, true);
  document.addEventListener("submit", (e) => {
    if (e.target.matches("form[data-answer]") && off()) e.preventDefault();
  });

  // The page as it is now, put in the place of what differs.
  let busy = false, again = false;
  function refresh() {
    if (body.dataset.still) return;
    if (busy) { again = true; return; }
    busy = true; again = false;
    const x = new XMLHttpRequest();
    x.open("GET", location.href);
    x.responseType = "document";
    x.timeout = 10000;
    x.onloadend = () => {
      busy = false;
      const next = x.response;
      if (x.status === 401) { out = true; hush(); lost("signed out: run remit ui to sign in again"); return; }
      if (!next || !next.body || !next.getElementById("main")) { if (x.status === 0) lost(); return; }
      swap("main", next);
      const nav = document.querySelector("nav"), links = next.querySelector("nav");
      if (nav && links) Idiomorph.morph(nav, links, { morphStyle: "outerHTML" });
      document.title = next.title;
      const icon = document.querySelector("link[rel=icon]"), drawn = next.querySelector("link[rel=icon]");
      if (icon && drawn && icon.getAttribute("href") !== drawn.getAttribute("href")) icon.setAttribute("href", drawn.getAttribute("href"));
      body.dataset.topics = next.body.dataset.topics || "";
      count(); moved();
      body.dataset.patched = String(Number(body.dataset.patched || 0) + 1);
      if (again) refresh();
    };
    x.send();
  }
  function swap(id, next) {
    Idiomorph.morph(document.getElementById(id), next.getElementById(id), {
      morphStyle: "outerHTML", ignoreActiveValue: true, restoreFocus: true,
      callbacks: {
        // What a person typed or opened stays.
        beforeAttributeUpdated: (name, node) => !(name === "open" && node.tagName === "DETAILS") && !(name === "value" && node === document.activeElement),
      },
    });
  }

  // One event stream for all pages of this browser: the page with the lock has it, and tells
  // the others. A hidden page gives it up.
  const told = new BroadcastChannel("remit-ui");
  let source = null, release = null, asking = null, live = false, out = false, seen = body.dataset.seq || "";
  function lost(why) {
    delete body.dataset.live;
    if (stale !== "" && !why) return;
    live = false;
    stale = why || "not live since " + new Date().toTimeString().slice(0, 5) + ": answers are off until the connection is back";
    paint();
  }
  function back() {
    if (out) return;
    const was = stale !== "";
    stale = ""; live = true;
    body.dataset.live = "on";
    paint();
    if (was) refresh();
  }
  function changed(topics) {
    const mine = (body.dataset.topics || "").split(" ");
    if (topics.some((t) => mine.includes(t))) refresh();
  }
  function hear(m) {
    if (m.kind === "topics") { seen = m.id; back(); changed(m.topics); }
    if (m.kind === "open") back();
    if (m.kind === "lost") lost(m.why);
    if (m.kind === "hello" && source && live) told.postMessage({ kind: "open" });
  }
  function tell(m) { told.postMessage(m); hear(m); }
  function listen() {
    source = new EventSource("/ui/events?after=" + encodeURIComponent(seen));
    source.onopen = () => tell({ kind: "open" });
    source.onmessage = (e) => {
      let topics = [];
      try { topics = JSON.parse(e.data); } catch { return; }
      tell({ kind: "topics", topics, id: e.lastEventId });
    };
    source.onerror = () => {
      tell({ kind: "lost" });
      if (source && source.readyState === EventSource.CLOSED) { refresh(); hush(); setTimeout(lead, 2000); }
    };
  }
  function hush() {
    if (source) source.close();
    source = null;
    if (release) release();
    release = null;
  }
  function lead() {
    if (document.hidden || source || asking || out) return;
    asking = new AbortController();
    navigator.locks.request("remit-ui-events", { signal: asking.signal }, () => {
      asking = null;
      if (document.hidden) return undefined;
      listen();
      return new Promise((done) => { release = done; });
    }).catch(() => { asking = null; });
  }
  told.onmessage = (e) => hear(e.data);
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) {
      if (asking) asking.abort();
      hush();
      return;
    }
    told.postMessage({ kind: "hello" });
    lead();
    refresh();
  });
  addEventListener("pagehide", hush);
  addEventListener("offline", () => tell({ kind: "lost" }));

  // Times that run out.
  function count() {
    for (const t of document.querySelectorAll("time[data-until]")) {
      const s = Math.floor((Date.parse(t.dataset.until) - Date.now()) / 1000);
      const text = s <= 0 ? "expired" : s < 60 ? s + " s left" : s < 3600 ? Math.floor(s / 60) + " min left" : Math.floor(s / 3600) + " h left";
      if (t.textContent !== text) {
        t.textContent = text;
        if (s <= 0 && s > -3) refresh();
      }
    }
  }
  setInterval(count, 1000);

  // Keys: g and a letter go to a page, j and k to a row, Enter opens it.
  let went = 0;
  const rows = () => [...document.querySelectorAll("[data-row] a:first-of-type")].filter((a, i, all) => all.findIndex((b) => b.closest("[data-row]") === a.closest("[data-row]")) === i);
  function step(by) {
    const all = rows(), at = all.indexOf(document.activeElement);
    const next = all[at < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(Math.max(at + by, 0), all.length - 1)];
    if (next) next.focus();
  }
  document.addEventListener("keydown", (e) => {
    if (!body.dataset.keys || e.ctrlKey || e.metaKey || e.altKey || e.target.closest("input, textarea, select, dialog")) return;
    const dialog = document.getElementById("help"), search = document.querySelector("[data-search]");
    if (Date.now() - went < 1500) {
      went = 0;
      const to = document.querySelector("nav a[data-key='" + CSS.escape(e.key) + "']");
      if (to) { e.preventDefault(); to.click(); return; }
    }
    if (e.key === "g") went = Date.now();
    else if (e.key === "j") step(1);
    else if (e.key === "k") step(-1);
    else if (e.key === "?") dialog.showModal();
    else if (e.key === "/" && search) { e.preventDefault(); search.focus(); }
  });

  since = performance.now();
  count();
  moved();
  told.postMessage({ kind: "hello" });
  lead();
  body.dataset.script = "on";
})();
