"use strict";
// Live updates of the pages of a run that works and of a batch. All that they
// write is text.
const say = (cell, text) => {
  const old = cell.querySelector("bdi");
  if (old) { old.textContent = text; return; }
  const bdi = document.createElement("bdi");
  bdi.textContent = text;
  cell.replaceChildren(bdi);
};

const follow = (at) => {
  const link = document.getElementById("link");
  const source = new EventSource(at);
  source.addEventListener("open", () => { link.textContent = "Live."; });
  source.addEventListener("error", () => {
    link.textContent = source.readyState === EventSource.CLOSED ? "Not live: load the page again." : "The connection is lost; trying again …";
  });
  return source;
};

(() => {
  const live = document.getElementById("live");
  if (!live) return;
  const step = document.getElementById("step");
  const notice = document.getElementById("notice");
  const link = document.getElementById("link");
  const body = live.querySelector("tbody");
  const calm = matchMedia("(prefers-reduced-motion: reduce)");
  const cells = ["agent", "state", "round", "files", "lines", "said"];

  const row = (c) => {
    for (const r of body.rows) if (r.dataset.candidate === String(c.number)) return r;
    const r = document.createElement("tr");
    r.dataset.candidate = String(c.number);
    const head = document.createElement("th");
    head.scope = "row";
    head.textContent = c.id;
    r.append(head);
    for (const name of cells) {
      const d = document.createElement("td");
      d.dataset.cell = name;
      r.append(d);
    }
    body.append(r);
    return r;
  };

  const source = follow(live.dataset.events);
  source.addEventListener("step", (e) => { step.textContent = JSON.parse(e.data).text; });
  source.addEventListener("notice", (e) => { notice.textContent = JSON.parse(e.data).text; });
  source.addEventListener("candidate", (e) => {
    const c = JSON.parse(e.data);
    const r = row(c);
    for (const name of cells) say(r.querySelector(`[data-cell="${name}"]`), c[name]);
    r.querySelector('[data-cell="state"]').className = c.good;
    if (!calm.matches) {
      r.classList.remove("fresh");
      void r.offsetWidth;
      r.classList.add("fresh");
    }
  });
  source.addEventListener("end", (e) => {
    source.close();
    step.textContent = JSON.parse(e.data).text;
    link.textContent = "The run has ended.";
    document.getElementById("again").textContent = "Compare its candidates";
    live.dataset.ended = "yes";
  });
})();

(() => {
  const batch = document.getElementById("batch");
  if (!batch) return;
  const source = follow(batch.dataset.events);
  source.addEventListener("batch", (e) => {
    const b = JSON.parse(e.data);
    for (const name of ["state", "process", "spend"]) document.getElementById(name).textContent = b[name];
  });
  source.addEventListener("task", (e) => {
    const t = JSON.parse(e.data);
    const r = batch.querySelector(`[data-task="${Number(t.number)}"]`);
    if (!r) return;
    for (const name of ["state", "winner", "reason"]) say(r.querySelector(`[data-cell="${name}"]`), t[name]);
    const run = r.querySelector('[data-cell="run"]');
    run.replaceChildren();
    if (!t.link) return;
    const a = document.createElement("a");
    a.className = "path";
    a.href = t.link;
    a.textContent = t.run;
    run.append(a);
  });
  source.addEventListener("end", (e) => {
    source.close();
    document.getElementById("link").textContent = JSON.parse(e.data).text;
    batch.dataset.ended = "yes";
  });
})();
