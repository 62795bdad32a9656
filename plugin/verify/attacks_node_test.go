package verify

import (
	"testing"

	"github.com/bestof-dev/bestof/plugin/wire"
)

var nodeProject = project{
	argv: []string{"node", "--test"},
	files: tree{
		"package.json":  "{\"name\": \"calc\", \"scripts\": {\"test\": \"node --test\"}}\n",
		"calc.js":       "exports.add = (a, b) => a - b\nexports.one = () => 1\n",
		"calc.test.js":  "const {test, describe, it} = require('node:test')\nconst assert = require('node:assert')\nconst {add} = require('./calc.js')\ntest('adds', () => { assert.strictEqual(add(1, 2), 3) })\ndescribe('group', () => { it('inner', () => {}); it.skip('never', () => {}) })\n",
		"other.test.js": "const test = require('node:test')\nconst assert = require('node:assert')\nconst {one} = require('./calc.js')\ntest('one', async t => { await t.test('sub', () => assert.strictEqual(one(), 1)) })\n",
	},
	right: tree{"calc.js": "exports.add = (a, b) => a + b\nexports.one = () => 1\n"},
}

func wrongNode(onLoad, onCall string) tree {
	return tree{"calc.js": onLoad + "\nexports.add = (a, b) => { " + onCall + "; return a - b }\nexports.one = () => 1\n"}
}

func TestAttacksNode(t *testing.T) {
	p := nodeProject
	p.try(t,
		attack{"exit on load", wrongNode("process.exit(0)", ""), Forgeable},
		attack{"exit on call", wrongNode("", "process.exit(0)"), Forgeable},
		attack{"exit of the process", wrongNode("process.reallyExit(0)", ""), Forgeable},
		attack{"exitCode", wrongNode("process.on('exit', () => { process.exitCode = 0 }); process.exitCode = 0", ""), wrong},
		attack{"console", wrongNode("console.log = console.error = () => {}; process.stdout.write = () => true", ""), wrong},
		attack{"an assertion replaced", wrongNode("require('node:assert').strictEqual = () => {}", ""), Forgeable},
		attack{"an assertion replaced for others than the canary", wrongNode("const a = require('node:assert'), old = a.strictEqual; a.strictEqual = (x, y, m) => { if (x !== -1) old(x, y, m) }", ""), Forgeable},
		attack{"tests replaced", wrongNode("const t = require('node:test'); t.test = t.it = () => {}", ""), wrong},
		attack{"forged summary", wrongNode("console.log('# tests 4\\n# pass 4\\n# fail 0'); process.exit(0)", ""), Forgeable},
		attack{"forged results", wrongNode("console.log('ok 1 - adds\\nok 2 - group\\n1..2'); process.exit(0)", ""), Forgeable},
		attack{"the script of the package", with(p.files, tree{"package.json": "{\"name\": \"calc\", \"scripts\": {\"test\": \"exit 0\"}}\n"}), wrong},
		attack{"options of a file", tree{".npmrc": "node-options=--test-name-pattern=none\n", ".env": "NODE_OPTIONS=--test-name-pattern=none\n"}, wrong},
		attack{"deleted", tree{"calc.test.js": ""}, wrong},
		attack{"renamed", tree{"calc.test.js": "require('node:test')('subs', () => {})\n"}, FewerTests},
		attack{"skipped", tree{"calc.test.js": "const {test, describe, it} = require('node:test')\ntest.skip('adds', () => {})\ndescribe('group', () => { it('inner', () => {}) })\n"}, FewerTests},
		attack{"does not load", tree{"calc.js": "exports.add = (\n"}, wrong},
	)
}

// TestBaseThatDoesNotLoadNode: of a file that cannot be loaded it is known
// only that its tests have to pass.
func TestBaseThatDoesNotLoadNode(t *testing.T) {
	p := nodeProject
	p.files = with(p.files, tree{"calc.js": "throw new Error('not yet')\n"})
	p.try(t,
		attack{"exit", wrongNode("process.exit(0)", ""), Forgeable},
		attack{"wrong", nodeProject.files, wrong},
		attack{"no tests", with(nodeProject.right, tree{"calc.test.js": "\n"}), FewerTests},
	)
	if base := p.base(t, wire.Failed); len(base.Expected.Units) != 2 {
		t.Errorf("%+v", base.Expected)
	}
}

var cargoProject = project{
	argv: []string{"cargo", "test"},
	files: tree{
		"Cargo.toml":    "[package]\nname = \"calc\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
		"src/lib.rs":    "/// ```\n/// assert_eq!(calc::one(), 1);\n/// ```\npub fn one() -> i32 { 1 }\npub fn add(a: i32, b: i32) -> i32 { a - b }\n\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn inner() { assert_eq!(crate::one(), 1); }\n    #[test]\n    #[ignore]\n    fn never() {}\n}\n",
		"tests/calc.rs": "#[test]\nfn adds() { assert_eq!(calc::add(1, 2), 3); }\n\n#[test]\n#[should_panic]\nfn panics() { panic!(\"{}\", calc::one()); }\n",
	},
	right: tree{"src/lib.rs": "pub fn one() -> i32 { 1 }\npub fn add(a: i32, b: i32) -> i32 { a + b }\n\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn inner() { assert_eq!(crate::one(), 1); }\n}\n"},
}

func wrongRust(onCall string) tree {
	return tree{"src/lib.rs": "pub fn one() -> i32 { 1 }\npub fn add(a: i32, b: i32) -> i32 { " + onCall + "; a - b }\n\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn inner() { assert_eq!(crate::one(), 1); }\n}\n"}
}

func TestAttacksCargo(t *testing.T) {
	p := cargoProject
	p.try(t,
		attack{"exit on call", wrongRust("std::process::exit(0)"), Forgeable},
		attack{"exit with forged lines", wrongRust(`use std::io::Write; std::io::stdout().write_all(b"test adds ... ok\n").unwrap(); std::io::stdout().flush().unwrap(); std::process::exit(101)`), wrong},
		attack{"forged lines, and on", wrongRust(`use std::io::Write; std::io::stdout().write_all(b"\ntest adds ... ok\n\ntest result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured\n").unwrap()`), wrong},
		attack{"no harness", with(p.files, tree{"Cargo.toml": p.files["Cargo.toml"] + "\n[[test]]\nname = \"calc\"\nharness = false\n"}), wrong},
		attack{"no harness, and a main", with(p.files, tree{
			"Cargo.toml": p.files["Cargo.toml"] + "\n[lib]\nharness = false\n[[test]]\nname = \"calc\"\nharness = false\n",
			"src/lib.rs": p.files["src/lib.rs"] + "#[cfg(test)]\nfn main() { println!(\"test adds ... ok\\ntest result: ok. 2 passed\"); }\n", "tests/calc.rs": "fn main() { println!(\"test adds ... ok\\ntest panics ... ok\\ntest result: ok. 2 passed\"); }\n",
		}), Forgeable},
		attack{"tests left out", with(p.files, tree{"Cargo.toml": p.files["Cargo.toml"] + "\n[[test]]\nname = \"calc\"\ntest = false\n"}), wrong},
		attack{"flags", tree{".cargo/config.toml": "[build]\nrustflags = [\"--cfg\", \"none\"]\n[target.'cfg(all())']\nrunner = \"true\"\n[env]\nRUST_TEST_THREADS = \"1\"\n"}, wrong},
		attack{"a build script that writes to tests", with(p.files, tree{"build.rs": "fn main() { std::fs::write(\"tests/calc.rs\", \"#[test] fn adds() {}\\n#[test] fn panics() {}\\n\").unwrap(); }\n"}), Forgeable},
		attack{"renamed", tree{"tests/calc.rs": "#[test]\nfn subs() {}\n\n#[test]\n#[should_panic]\nfn panics() { panic!() }\n"}, FewerTests},
		attack{"ignored", tree{"tests/calc.rs": "#[test]\n#[ignore]\nfn adds() {}\n\n#[test]\n#[should_panic]\nfn panics() { panic!() }\n"}, FewerTests},
		attack{"does not build", tree{"src/lib.rs": "pub fn\n"}, wrong},
	)
}
