// Loaded by node before each file of tests. It registers a test that must
// fail, and tells, when all tests of the file have ended, that they did and
// whether what they check with is still what it was. What was thrown and not
// caught would count for the canary alone, as when the file cannot be loaded.
'use strict';
if ((process.env.NODE_TEST_CONTEXT || '').startsWith('child') && require('node:worker_threads').isMainThread) {
  const S = SETTINGS;
  const fs = require('node:fs');
  const test = require('node:test');
  const assert = require('node:assert');
  const append = fs.appendFileSync;
  const stringify = JSON.stringify;
  const file = fs.realpathSync(process.argv[1]);
  const own = process.execArgv.indexOf(__filename); // processes that a test forks are none of its files
  if (own > 0) process.execArgv.splice(own - 1, 2);
  const tracked = [];
  const track = (name, object) => {
    for (const key of Object.getOwnPropertyNames(object)) {
      const d = Object.getOwnPropertyDescriptor(object, key);
      if (d && typeof d.value === 'function') tracked.push([name + '.' + key, object, key, d.value]);
    }
  };
  track('assert', assert);
  track('assert.strict', assert.strict);
  track('test', test);
  for (const [name, object] of Object.entries({
    Object, Array, Promise, Map, Set, Reflect, String,
    'Object.prototype': Object.prototype, 'Array.prototype': Array.prototype,
    'Promise.prototype': Promise.prototype, 'String.prototype': String.prototype,
  })) track(name, object);
  const descriptor = Object.getOwnPropertyDescriptor;
  test.test(S.nonce + ' ' + file, () => { assert.strictEqual(1, 2, S.token); });
  process.on('uncaughtExceptionMonitor', () => append(S.marks, S.token + stringify([file, [], true]) + '\n'));
  test.after(() => {
    const replaced = [];
    for (const [name, object, key, value] of tracked) {
      const d = descriptor(object, key);
      if (!d || d.value !== value) replaced.push(name);
    }
    append(S.marks, S.token + stringify([file, replaced.slice(0, 20)]) + '\n');
  });
}
