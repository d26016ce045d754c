// The script of the web UI. Every page and form works without it. It asks for the page again
// when something on it changed, keeps answers off while a page may be out of date, and adds
// keys. It makes no markup out of text: documents are parsed by XMLHttpRequest, where no
// script of theirs runs.
"use strict";
(() => {
  const body = document.body, bar = document.getElementById("live"), says = document.getElementById("live-text");
  const settle = 500; // ms in which a card that appeared or moved takes no answer

  // Answers: off until the card has been still for a while, and while the page is not live.
  // While the service has no stream left for this browser, the page is asked for again and again.
  let polls = false;
  const polling = "not followed live, as too many pages are: this page is asked for every 2 s";
  let stale = "", since = 0, timer = 0, place = "";
  const forms = () => document.querySelectorAll("form[data-answer]"), talk = () => document.querySelectorAll("form[data-live]");
  const off = () => stale !== "" || performance.now() < since + settle;
  function paint() {
    const no = String(off());
    for (const f of forms()) for (const b of f.querySelectorAll("button")) b.setAttribute("aria-disabled", no);
    for (const f of talk()) for (const b of f.querySelectorAll("button")) b.setAttribute("aria-disabled", String(stale !== ""));
    const note = stale || (polls ? polling : "");
    bar.hidden = note === "";
    if (says.textContent !== note) says.textContent = note;
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
    if (e.target.matches("form[data-answer]") && off() || e.target.matches("form[data-live]") && stale !== "") e.preventDefault();
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
      if (!next || !next.body || !next.getElementById("main")) { if (x.status === 0 || polls) lost(); return; }
      if (polls) fresh();
      const low = bottom();
      swap("main", next);
      follow();
      write();
      if (low) scrollTo(0, body.scrollHeight);
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
        beforeNodeMorphed: (node) => !(node.nodeType === 1 && (node.hasAttribute("data-keep") || node.id === "completions")),
        // What a person typed or opened stays.
        beforeAttributeUpdated: (name, node) => !(name === "open" && node.tagName === "DETAILS") && !(name === "value" && node === document.activeElement),
      },
    });
  }

  // The answer that is coming in, until its message is there. A person who looks at the end
  // goes on to see it.
  const session = body.dataset.session || "";
  const drafts = {}, shown = () => [...document.querySelectorAll("[data-draft]")].map((e) => e.dataset.draft); // also of sub-agents
  let mine = shown();
  const bottom = () => innerHeight + scrollY > body.scrollHeight - 120;
  function write() {
    for (const at of document.querySelectorAll("[data-draft]")) {
      const draft = drafts[at.dataset.draft], text = draft && String(draft.after) === at.dataset.after ? draft.text : "";
      if (at.textContent !== text) at.textContent = text;
      at.hidden = text === "";
    }
  }
  function comes(m) {
    if (!mine.includes(m.session)) return;
    if (!drafts[m.session] || m.after !== drafts[m.session].after) drafts[m.session] = { after: m.after, text: "" };
    drafts[m.session].text += m.text;
    const low = bottom();
    write();
    if (low) scrollTo(0, body.scrollHeight);
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
  // The page is as the service just gave it, so answers count.
  function fresh() {
    stale = "";
    body.dataset.live = "polls";
    paint();
  }
  function changed(topics) {
    const mine = (body.dataset.topics || "").split(" ");
    if (topics.some((t) => mine.includes(t))) refresh();
  }
  function hear(m) {
    if (m.kind === "topics" || m.kind === "open") polls = false;
    if (m.kind === "polls") { polls = true; refresh(); }
    if (m.kind === "topics") { seen = m.id; back(); changed(m.topics); }
    if (m.kind === "open") { back(); if (m.sessions.length < 8) for (const id of mine) if (!m.sessions.includes(id)) greet(id); }
    if (m.kind === "text") comes(m);
    if (m.kind === "bye") watched = watched.filter((id) => id !== m.session);
    if (m.kind === "hello") watch(m.session);
    if (m.kind === "lost") lost(m.why);
    if (m.kind === "hello" && source && live) told.postMessage({ kind: "open", sessions: watched });
  }
  function tell(m) { told.postMessage(m); hear(m); }
  // The stream also has the text of answers in the conversations that pages of this browser show.
  let watched = [...mine];
  const greet = (id) => told.postMessage({ kind: "hello", session: id });
  function follow() {
    const now = shown();
    for (const id of mine) if (!now.includes(id)) tell({ kind: "bye", session: id });
    mine = now;
    for (const id of now) if (!watched.includes(id)) { watch(id); greet(id); }
  }
  function watch(id) {
    if (!id || watched.includes(id) || watched.length >= 8) return;
    watched.push(id);
    if (source) { source.close(); listen(); }
  }
  function listen() {
    source = new EventSource("/ui/events?after=" + encodeURIComponent(seen) + watched.map((id) => "&session=" + encodeURIComponent(id)).join(""));
    source.onopen = () => tell({ kind: "open", sessions: watched });
    source.addEventListener("text", (e) => {
      try { tell({ ...JSON.parse(e.data), kind: "text" }); } catch { return; }
    });
    source.onmessage = (e) => {
      let topics = [];
      try { topics = JSON.parse(e.data); } catch { return; }
      tell({ kind: "topics", topics, id: e.lastEventId });
    };
    source.onerror = () => {
      if (!source || source.readyState !== EventSource.CLOSED) { polls = false; tell({ kind: "lost" }); return; }
      hush();
      tell({ kind: "polls" });
      setTimeout(lead, 2000);
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
    greet(session);
    lead();
    refresh();
  });
  addEventListener("pagehide", () => { for (const id of mine) told.postMessage({ kind: "bye", session: id }); hush(); });
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

  // Keys: g and a letter go to a page, j and k to a row, Enter opens it. On the page of a call,
  // j and k open the next and the previous one.
  let went = 0;
  const rows = () => [...document.querySelectorAll("[data-row] a:first-of-type")].filter((a, i, all) => all.findIndex((b) => b.closest("[data-row]") === a.closest("[data-row]")) === i);
  function step(by, key) {
    const beside = document.querySelector("a[data-step='" + key + "']");
    if (beside || document.querySelector("a[data-step]")) { if (beside) beside.click(); return; }
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
    else if (e.key === "j") step(1, "j");
    else if (e.key === "k") step(-1, "k");
    else if (e.key === "?") dialog.showModal();
    else if (e.key === "/" && search) { e.preventDefault(); search.focus(); }
  });

  // A message: Enter sends it. A slash command: what may follow is listed below it.
  const said = document.querySelector("textarea[data-say]"), list = document.getElementById("completions");
  let chosen = -1, from = 0, line = "";
  function choose(n) {
    const all = [...list.children];
    chosen = all.length ? (n + all.length) % all.length : -1;
    all.forEach((li, i) => li.setAttribute("aria-selected", String(i === chosen)));
    if (chosen >= 0) said.setAttribute("aria-activedescendant", all[chosen].id); else said.removeAttribute("aria-activedescendant");
  }
  function offer(items) {
    const kept = chosen >= 0 && list.children[chosen] ? list.children[chosen].firstChild.textContent : "";
    list.replaceChildren(...items.map((item, i) => {
      const li = document.createElement("li"), code = document.createElement("code");
      li.id = "completion-" + i;
      li.setAttribute("role", "option");
      li.setAttribute("aria-selected", "false");
      code.textContent = item.text;
      li.append(code, " " + (item.description || "").split("\n")[0]);
      li.addEventListener("mousedown", (e) => { e.preventDefault(); take(item.text); });
      return li;
    }));
    list.hidden = items.length === 0;
    const at = items.findIndex((item) => item.text === kept);
    chosen = -1;
    if (at >= 0) choose(at); else said.removeAttribute("aria-activedescendant");
  }
  function take(text) {
    said.value = new TextDecoder().decode(new TextEncoder().encode(line).slice(0, from)) + text + " ";
    complete();
  }
  function complete() {
    const typed = said.value;
    if (!/^\/[^\n]*$/.test(typed)) { offer([]); return; }
    const x = new XMLHttpRequest();
    x.open("GET", "/ui/commands?line=" + encodeURIComponent(typed));
    x.responseType = "json";
    x.onload = () => {
      if (said.value !== typed || !x.response) return;
      line = typed; from = x.response.from;
      offer(x.response.items.slice(0, 12));
    };
    x.send();
  }
  if (said) {
    said.addEventListener("input", complete);
    said.addEventListener("blur", () => offer([]));
    said.addEventListener("keydown", (e) => {
      const open = !list.hidden;
      if (open && (e.key === "ArrowDown" || e.key === "ArrowUp")) { e.preventDefault(); choose(chosen + (e.key === "ArrowDown" ? 1 : chosen < 0 ? 0 : -1)); }
      else if (open && e.key === "Escape") { e.preventDefault(); offer([]); }
      else if (open && chosen >= 0 && (e.key === "Enter" || e.key === "Tab")) { e.preventDefault(); take(list.children[chosen].firstChild.textContent); }
      else if (e.key === "Enter" && !e.shiftKey && !e.isComposing) {
        e.preventDefault();
        if (said.value.trim()) said.form.requestSubmit(said.form.querySelector("button[value=say]"));
      }
    });
  }

  // A policy: what is wrong with it is shown while it is typed.
  const edited = document.querySelector("textarea[data-check]");
  let asks = 0, checking = null;
  function check() {
    const form = new URLSearchParams(new FormData(edited.form)), x = new XMLHttpRequest();
    if (checking) checking.abort();
    checking = x;
    form.set("do", "check");
    x.open("POST", edited.form.action);
    x.setRequestHeader("Content-Type", "application/x-www-form-urlencoded");
    x.responseType = "document";
    x.onload = () => {
      checking = null;
      if (x.status === 401) { out = true; hush(); lost("signed out: run remit ui to sign in again"); return; }
      if (x.response && x.response.getElementById(edited.dataset.check)) swap(edited.dataset.check, x.response);
    };
    x.send(form.toString());
  }
  if (edited) {
    edited.addEventListener("input", () => { clearTimeout(asks); asks = setTimeout(check, 300); });
    document.addEventListener("click", (e) => {
      const at = e.target.closest("a[data-line]");
      if (!at) return;
      e.preventDefault();
      const lines = edited.value.split("\n"), line = Math.min(Number(at.dataset.line), lines.length);
      const from = lines.slice(0, line - 1).reduce((n, l) => n + l.length + 1, 0);
      edited.focus();
      edited.setSelectionRange(from + Math.max(Number(at.dataset.column) - 1, 0), from + lines[line - 1].length);
      edited.scrollTop = edited.scrollHeight * (line - 4) / lines.length;
    });
    check();
  }

  since = performance.now();
  count();
  moved();
  greet(session);
  lead();
  body.dataset.script = "on";
})();
