// Runs the test that a candidate's grant names and reports what it observed.
//
// One request on stdin, one response on stdout. What is not understood in full
// is refused: status 1, one line on stderr, nothing on stdout. There are no
// dependencies. main.mjs is this file without its types.

import { spawn } from "node:child_process";
import { statSync } from "node:fs";
import { stdin, stdout, stderr } from "node:process";

type Table = Record<string, unknown>;
type Evidence = { flip: string; measurements?: Record<string, number> };
type Run = { code: number; milliseconds: number } | null;

const NAME = "verify";
const SPEAKS = 1;
const TEST_SECONDS = 240; // less than [runtime] timeout_secs, so that there is time to say so

class Refusal extends Error {}
class Quiet extends Error {} // a hook's payload: the evidence after the turn decides, so there is nothing to say

// oracle looks at a candidate and returns the evidence about it.
async function oracle(candidate: Table | null): Promise<Evidence> {
  const plan = candidate?.test as Table | null;
  if (!candidate || !plan || !isDirectory(candidate.root as string)) return { flip: "unobservable" };
  const ran = await run(plan, candidate.root as string);
  if (!ran) return { flip: "unobservable" };
  const measurements = { "test-command-exit-code": ran.code, "test-duration-ms": ran.milliseconds };
  if (plan.baseline === "failed") return { flip: ran.code === 0 ? "achieved" : "not-achieved", measurements };
  return { flip: plan.baseline === "passed" ? "not-achieved" : "unobservable", measurements };
}

function isDirectory(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
}

// run resolves to null when the test could not be started or did not end.
function run(plan: Table, root: string): Promise<Run> {
  return new Promise((resolve) => {
    const started = process.hrtime.bigint();
    let late = false;
    // Its output has no way into the response, and it cannot wait for input.
    const child = spawn(plan.program as string, (plan.args ?? []) as string[], { cwd: root, stdio: "ignore", detached: true });
    const end = () => {
      try {
        process.kill(-(child.pid as number), "SIGKILL");
      } catch {
        // Nothing of it is left.
      }
    };
    const timer = setTimeout(() => ((late = true), end()), TEST_SECONDS * 1000);
    child.on("error", () => (clearTimeout(timer), resolve(null)));
    child.on("exit", (code) => {
      clearTimeout(timer);
      end();
      const milliseconds = Number((process.hrtime.bigint() - started) / 1000000n);
      resolve(late ? null : { code: code ?? 1, milliseconds }); // a signal has no code, and the wire no null
    });
  });
}

// read reads a request strictly and returns the candidate's grant, or null.
function read(data: Uint8Array): Table | null {
  const request = parse(data);
  if ("event" in request && !("point" in request)) throw new Quiet();
  if (Object.keys(request).some((key) => key !== "point" && key !== "body")) {
    throw new Refusal("the request envelope carried a field outside {point, body}");
  }
  if (request.point !== "after_turn") {
    const point = "point" in request ? JSON.stringify(request.point) : "no point";
    throw new Refusal(`this plugin answers after_turn only; the host asked for ${point}`);
  }
  const body = request.body;
  if (!isTable(body)) throw new Refusal("the body of the request is not an object");
  only(body, ["protocol_version", "wrapper", "stage", "round", "goal", "candidate", "turn"]);
  if (body.protocol_version !== SPEAKS) {
    throw new Refusal(`this plugin speaks wrapper protocol_version ${SPEAKS}; the host asked for ${JSON.stringify(body.protocol_version ?? null)}`);
  }
  const turn = optionalTable(body, "turn");
  if (turn) only(turn, ["completed", "answer", "tools", "changed_files"]);
  const candidate = optionalTable(body, "candidate");
  if (!candidate) return null;
  only(candidate, ["handle", "root", "test"]);
  if (typeof candidate.root !== "string" || candidate.root === "") throw new Refusal("the request has an empty root");
  const plan = optionalTable(candidate, "test");
  if (plan) check(plan);
  return candidate;
}

function check(plan: Table): void {
  only(plan, ["program", "args", "baseline"]);
  if (typeof plan.program !== "string" || plan.program === "") throw new Refusal("the request has an empty program");
  const args = plan.args ?? [];
  if (!Array.isArray(args) || args.some((arg) => typeof arg !== "string")) {
    throw new Refusal("the args of the request are not a list of strings");
  }
  if (![undefined, null, "not-run", "passed", "failed", "unobserved"].includes(plan.baseline as string)) {
    throw new Refusal(`TestBaseline is a closed set {not-run, passed, failed, unobserved}; got ${JSON.stringify(plan.baseline)}`);
  }
}

function isTable(value: unknown): value is Table {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function optionalTable(table: Table, key: string): Table | null {
  const value = table[key] ?? null;
  if (value !== null && !isTable(value)) throw new Refusal(`the field ${key} of the request is not an object`);
  return value;
}

function only(table: Table, allowed: string[]): void {
  const unknown = Object.keys(table).filter((key) => !allowed.includes(key));
  if (unknown.length > 0) throw new Refusal(`the request denies unknown fields; got ${unknown.sort().join(", ")}`);
}

function parse(data: Uint8Array): Table {
  let request: unknown = null;
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(data);
    request = JSON.parse(text);
    if (repeats(text)) request = null;
  } catch {
    // Said below.
  }
  if (!isTable(request)) throw new Refusal("stdin was not a single JSON object");
  return request;
}

// repeats reports whether a JSON text has a key twice in one object, which
// JSON.parse lets pass.
function repeats(text: string): boolean {
  const open: string[][] = [];
  for (const [token, key] of text.matchAll(/("(?:[^"\\]|\\.)*")(?=\s*:)|"(?:[^"\\]|\\.)*"|[{}]/gs)) {
    if (token === "{") open.push([]);
    else if (token === "}") open.pop();
    else if (key !== undefined) {
      const keys = open[open.length - 1] as string[];
      if (keys.includes(JSON.parse(key))) return true;
      keys.push(JSON.parse(key));
    }
  }
  return false;
}

async function main(): Promise<void> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of stdin) chunks.push(chunk);
  let candidate = null;
  try {
    candidate = read(Buffer.concat(chunks));
  } catch (error) {
    if (error instanceof Quiet) return;
    if (!(error instanceof Refusal)) throw error;
    stderr.write(`${NAME}: ${error.message.replace(/[\p{C}\p{Z}]/gu, (c) => (c === " " ? c : "\ufffd"))}\n`);
    process.exitCode = 1;
    return;
  }
  const body = { protocol_version: SPEAKS, evidence: await oracle(candidate) };
  stdout.write(JSON.stringify({ point: "after_turn", body }) + "\n");
}

main();
