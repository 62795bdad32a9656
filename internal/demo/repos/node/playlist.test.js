'use strict';
const test = require('node:test');
const assert = require('node:assert');
const { total, fit, clock } = require('./playlist.js');

const tracks = [{ seconds: 200 }, { seconds: 100 }, { seconds: 300 }];

test('total', () => assert.strictEqual(total(tracks), 600));
test('clock', () => assert.strictEqual(clock(605), '10:05'));
test('fit leaves out what is too long', () => assert.strictEqual(fit(tracks, 299).length, 1));
test('fit uses the whole disc', () => {
  assert.strictEqual(fit(tracks, 300).length, 2);
  assert.strictEqual(fit(tracks, 600).length, 3);
});
