// Drives Chromium over the pages of `bestof view`: node drive.cjs PLAN.
// PLAN is a JSON file (the type browserPlan of view_browser_test.go). Every
// fault is a line of standard error, and the status is 1.
"use strict";
const fs = require("fs");
const path = require("path");
const plan = JSON.parse(fs.readFileSync(process.argv[2], "utf8"));
const { chromium } = require(path.join(plan.modules, "playwright-core"));
const axe = fs.readFileSync(path.join(plan.modules, "axe-core", "axe.min.js"), "utf8");

let faults = 0;
const fault = (text) => { faults++; console.error(text); };
const must = (ok, text) => { if (!ok) fault(text); };
const own = new URL(plan.address).origin;
const visited = new Set();

// watch makes everything that a page must not do a fault.
const watch = (page, label) => {
  page.on("console", (m) => { if (m.type() === "error" || m.type() === "warning") fault(`${label}: console: ${m.text()}`); });
  page.on("pageerror", (e) => fault(`${label}: error: ${e.message}`));
  page.on("dialog", (d) => { fault(`${label}: a script of a candidate ran: ${d.message()}`); d.dismiss(); });
  page.on("request", (r) => { if (new URL(r.url()).origin !== own) fault(`${label}: asks for ${r.url()}`); });
  // Whoever goes on before a page is there gives up what it asked for.
  page.on("requestfailed", (r) => { if (r.failure().errorText !== "net::ERR_ABORTED") fault(`${label}: ${r.url()}: ${r.failure().errorText}`); });
};

// judge looks at the page as it stands, in both themes, with axe-core.
const judge = async (page, label) => {
  visited.add(label);
  const papers = [];
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
    papers.push(await page.evaluate(() => getComputedStyle(document.body).backgroundColor));
    const found = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
    for (const v of found.violations) {
      if (v.impact === "serious" || v.impact === "critical") {
        fault(`${label}, ${colorScheme}: ${v.impact}: ${v.id}: ${v.help}: ${v.nodes.slice(0, 3).map((n) => n.html.slice(0, 200)).join(" | ")}`);
      }
    }
  }
  must(papers[0] !== papers[1], `${label}: both themes are ${papers[0]}`);
  const shape = await page.evaluate(() => ({
    h1: document.querySelectorAll("h1").length,
    scripts: document.scripts.length,
    foreign: document.querySelectorAll("iframe, object, embed, base, plaintext, style, meta[http-equiv], main img, main svg:not([role=img])").length,
    tables: [...document.querySelectorAll("main table:not(.code)")].filter((t) => !t.querySelector("thead th[scope]")).length,
    levels: [...document.querySelectorAll("h1, h2, h3")].map((h) => Number(h.tagName[1])),
  }));
  must(shape.h1 === 1, `${label}: ${shape.h1} headings of the first level`);
  must(shape.scripts === 1 && shape.foreign === 0, `${label}: ${shape.scripts} scripts, ${shape.foreign} foreign elements`);
  must(shape.tables === 0, `${label}: ${shape.tables} tables have no heads`);
  must(shape.levels.every((l, i) => i === 0 || l - shape.levels[i - 1] <= 1), `${label}: levels of headings ${shape.levels}`);
};

const visit = async (page, where, label, status = 200) => {
  const answer = await page.goto(new URL(where, own).href);
  must(answer.status() === status, `${label}: status ${answer.status()}`);
  await page.evaluate(axe);
  await judge(page, label);
};

const picture = async (page, name, colorScheme) => {
  await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
  await page.screenshot({ path: path.join(plan.pictures, name + ".png") });
};

const focused = (page) => page.evaluate(() => document.activeElement.textContent.trim() || document.activeElement.id);

// byKeyboard tabs until something with the text has the focus, and presses
// Enter.
const byKeyboard = async (page, text) => {
  for (let i = 0; i < 60; i++) {
    await page.keyboard.press("Tab");
    if ((await focused(page)) === text) {
      const ring = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
      must(ring !== "none", `${text} shows no focus`);
      const before = page.url();
      await page.keyboard.press("Enter");
      await page.waitForURL((u) => u.href !== before);
      return;
    }
  }
  fault(`${text} cannot be reached by keyboard`);
};

const keyboard = async (page) => {
  await page.goto(own + "/");
  await page.keyboard.press("Tab");
  must((await focused(page)) === "Skip to the content", `the first stop is ${await focused(page)}`);
  must(await page.evaluate(() => document.activeElement.getBoundingClientRect().left >= 0), "the skip link is not seen");
  await page.keyboard.press("Enter");
  must((await page.evaluate(() => document.activeElement.id)) === "main", "the skip link does not lead to the content");
  await byKeyboard(page, plan.done);
  must((await page.textContent("h1")).includes("Winner"), "Enter on a run does not lead to it");
  await byKeyboard(page, "Adopt c1 …");
  must((await page.textContent("h1")).startsWith("Adopt c1"), "Enter does not lead to adoption");
};

const live = async (page) => {
  await visit(page, plan.live, "a run that works");
  const row = page.locator('tr[data-candidate="1"]');
  await row.locator('[data-cell="said"]', { hasText: "thinks <b>hard</b>" }).waitFor();
  must((await row.locator('[data-cell="state"]').textContent()) === "working", "the candidate does not work");
  must((await page.textContent("#link")) === "Live.", "the page is not live");
  await judge(page, "a run that works, live");
  await picture(page, "view-live", "dark");
  must((await page.evaluate(() => document.getAnimations().length)) === 0, "something moves where reduced motion is asked for");
  fs.writeFileSync(plan.gate, "");
  await page.locator("#live[data-ended]").waitFor();
  must((await row.locator('[data-cell="state"]').textContent()) === "met", "the candidate is not met");
  must((await page.textContent("#step")).includes("The winner is c1"), `the end is ${await page.textContent("#step")}`);
  await judge(page, "a run that has ended");
  await page.click("text=Compare its candidates");
  must((await page.textContent("h1")).includes("Winner: c1"), "no comparison after the end");
};

const killed = async (page) => {
  await visit(page, plan.killed, "a run that will be killed");
  await page.locator("#link", { hasText: "Live." }).waitFor();
  process.kill(plan.kill, "SIGKILL");
  await page.locator("#step", { hasText: "was interrupted" }).waitFor();
  await visit(page, plan.killed, "a run that was killed");
  must((await page.textContent("main")).includes("interrupted"), "the page does not say that the run was killed");
};

const hostile = async (page) => {
  await visit(page, plan.hostile, "hostile: comparison");
  for (const c of plan.hostileCandidates) {
    await visit(page, `${plan.hostile}/log/${c}`, `hostile: log of c${c}`);
    await visit(page, `${plan.hostile}/diff/0/${c}`, `hostile: change of c${c}`);
    const files = await page.$$eval("tbody a", (all) => all.map((a) => a.getAttribute("href")));
    must(files.length >= 10, `the change has ${files.length} files`);
    for (const f of files) {
      await page.goto(own + f);
      must((await page.evaluate(() => document.querySelectorAll("main script, main iframe, main img, main form, main style").length)) === 0, `${f}: something of a candidate is markup`);
    }
    await visit(page, files[0], "hostile: one file");
    await visit(page, `${plan.hostile}/adopt/${c}`, `hostile: adoption of c${c}`);
  }
};

const adopt = async (page) => {
  await visit(page, `${plan.run}/adopt/1`, "adoption");
  await picture(page, "view-adopt", "light");
  await page.dblclick("text=Write into the work tree", { noWaitAfter: true });
  await page.waitForURL(/\/done\//);
  await page.evaluate(axe);
  must((await page.textContent("main")).includes("is in your work tree"), `adoption says ${await page.textContent("main")}`);
  await judge(page, "adopted");
  await visit(page, `${plan.run}/adopt/1`, "adoption again");
  must((await page.textContent("main")).includes("was adopted before"), "adopting again is not refused");
};

(async () => {
  const browser = await chromium.launch({ executablePath: plan.chromium, args: plan.root ? ["--no-sandbox"] : [] });
  try {
    const context = await browser.newContext({ viewport: { width: 1000, height: 720 } });
    context.setDefaultTimeout(60000);
    const page = await context.newPage();
    watch(page, "browser");
    await page.goto(plan.address);
    must(page.url() === own + "/", `entering leads to ${page.url()}`);
    await visit(page, "/", "list");
    await keyboard(page);
    await live(page);
    await killed(page);
    await visit(page, plan.run, "comparison");
    await picture(page, "view-compare", "light");
    await page.selectOption('select[name="from"]', "1");
    await page.selectOption('select[name="to"]', "2");
    await page.click("text=Show");
    must(page.url().endsWith("/diff/1/2"), `the form leads to ${page.url()}`);
    await visit(page, `${plan.run}/diff/0/1/0`, "one file");
    for (const [label, where] of Object.entries(plan.batch)) await visit(page, where, label);
    await hostile(page);
    await adopt(page);
    const paperless = await browser.newContext({ javaScriptEnabled: false, storageState: await context.storageState() });
    const plain = await paperless.newPage();
    for (const where of ["/", plan.run, `${plan.run}/diff/0/2/0`, `${plan.run}/adopt/2`]) {
      const answer = await plain.goto(own + where);
      must(answer.status() === 200 && (await plain.textContent("h1")) !== "", `without JavaScript ${where}: ${answer.status()}`);
    }
    const stranger = await (await browser.newContext()).newPage();
    must((await stranger.goto(own + plan.run)).status() === 401, "a browser that did not enter sees a run");
    console.log(`${visited.size} pages`);
  } finally {
    await browser.close();
  }
  process.exit(faults > 0 ? 1 : 0);
})().catch((e) => { console.error(e.stack); process.exit(1); });
