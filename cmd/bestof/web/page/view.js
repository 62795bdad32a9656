"use strict";
// Live updates of the page of a run that works. All that it writes is text.
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
  const say = (cell, text) => {
    const old = cell.querySelector("bdi");
    if (old) { old.textContent = text; return; }
    const bdi = document.createElement("bdi");
    bdi.textContent = text;
    cell.replaceChildren(bdi);
  };

  const source = new EventSource(live.dataset.events);
  source.addEventListener("open", () => { link.textContent = "Live."; });
  source.addEventListener("error", () => {
    link.textContent = source.readyState === EventSource.CLOSED ? "Not live: load the page again." : "The connection is lost; trying again …";
  });
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
