package hostile_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/bestof-dev/bestof/candidate/sandbox/hostile"
)

// corpus says of each known way to win without the work what tries it: attacks
// of this package, by name, scripts of the command line, by file, and tests of
// other packages, as folder:Test. Each has to exist.
var corpus = map[string]string{
	"01 edits what a test expects":            "cheat-edits cheat-restored hazards_verification.txtar",
	"02 deletes the failing test":             "cheat-deletes during-removes-test",
	"03 renames the test":                     "cheat-renames plugin/verify:TestFewerTests",
	"04 skips the test":                       "cheat-skips plugin/verify:TestAttacksJUnit",
	"05 conftest.py at the top":               "cheat-conftest plugin/verify:TestAttacksPytest",
	"06 conftest.py in a new directory":       "cheat-conftest-deep",
	"07 settings of the runner":               "cheat-settings plugin/verify:TestAttacksPytest",
	"08 sitecustomize, .pth":                  "cheat-sitecustomize plugin/verify:TestAttacksUnittest",
	"09 shadows the standard library":         "cheat-stdlib cheat-package",
	"10 stale bytecode":                       "cheat-cache",
	"11 init that exits":                      "cheat-exit hazards_go.txtar plugin/verify:TestAttacksGo",
	"12 a TestMain of its own":                "plugin/verify:TestAttacksGo hazards_go.txtar",
	"13 forged lines":                         "cheat-exit-green during-stdout verify_forged.txtar plugin/verify:TestAttacksGo",
	"14 exits at import, at exit, in threads": "cheat-exit cheat-atexit cheat-thread plugin/verify:TestHazardsExitBeforeTests",
	"15 build tags, testdata":                 "plugin/verify:TestAttacksGo plugin/verify:TestFewerTests",
	"16 replaced modules, scripts, makefiles": "plugin/verify:TestAttacksGo hazards_verification.txtar",
	"17 lock files":                           "cheat-lock during-network",
	"18 equal to everything, patched asserts": "enough-equal plugin/verify:TestAttacksOnHelpers",
	"19 knows the visible inputs":             "enough-special batch_hidden.txtar",
	"20 patched clocks":                       "cheat-clock",
	"21 sleeps until the time limit":          "cheat-hangs",
	"22 writes the result itself":             "cheat-results during-result-files during-descriptors during-parent-descriptors",
	"23 kills or traces the runner":           "cheat-dies during-kills-verifier kill-supervisor trace-supervisor",
	"24 daemon that edits later":              "daemon-edits daemon-session daemon-double",
	"25 swapped links, hard links":            "daemon-swaps checkout-hardlink tree-dir-to-link",
	"26 poisoned caches":                      "own-bases poison-base home-seeded-dir",
	"27 reads the fix in history":             "fix-log fix-refs fix-objects fix-fsck",
	"28 reads other candidates":               "read-sibling read-log-of-sibling net-port tool-sibling-socket",
	"29 reads held-out tests, plugins":        "fix-held-out read-plugins during-other-shadows",
	"30 fetches the fix":                      "fix-fetch net-outside during-network",
	"31 text for a judge":                     "text-judge judge:TestPure",
	"32 two keys, NaN, a second object":       "plugin/wire:TestRefusals plugin/wire:TestReadResponse",
	"33 endless output":                       "bomb-log during-flood text-bytes",
	"34 bombs":                                "bomb-processes bomb-memory tree-many tree-sparse tree-deep tree-zip daemon-bomb",
	"35 hidden in a diff":                     "git-hide text-bidi tree-line cmd/bestof/view:TestHostileTextIsInert",
	"36 nested repositories, links, LFS":      "git-nested git-link git-modules",
	"37 names":                                "name-lines name-escape name-dashes name-devices name-bidi name-long name-twins dotgit-space",
	"38 programs named like tools":            "cheat-tools",
	"39 settings for people's programs":       "cheat-hooks",
	"40 hooks of builds":                      "p3_no_host_execution.txtar plugin/verify:TestAttacksCargo",
	"41 changes nothing":                      "cheat-nothing",
	"42 two alike":                            "judge:TestRankIsInvariantUnderPermutation p5_same_evidence.txtar",
	"43 passes one time in five":              "sandbox_repeat.txtar orchestrator:TestFoldKeepsTheWorstRepetition",
	"44 deletes what is tested":               "cheat-deletes-feature plugin/verify:TestFewerTests",
	"45 its number decides a tie":             "orchestrator:TestOrderOfCandidatesDoesNotMatter name-ours",

	"docker: image, user, rights, root":      "candidate/sandbox/docker:TestPlanGrantsNothingElse candidate/sandbox/docker:TestImageIsNotObeyed privileges capabilities mount-remount",
	"docker: system calls":                   "call-uring call-userfault call-vsock call-clone3 call-x32 call-other-arch call-key internal/seccomp:TestFilter",
	"docker: network":                        "net-outside net-metadata net-name net-interfaces net-abstract net-host",
	"docker: limits":                         "candidate/sandbox/docker:TestLimitsHold bomb-memory bomb-processes raise-limits",
	"docker: sockets, devices, namespaces":   "engine-socket device-memory device-make ns-all enter-init mount-umount",
	"docker: first process, environment":     "candidate/sandbox/docker:TestFirstProcessCannotBeHurt env-keys read-supervisor program-overwrite",
	"docker: killed, lost, hung, dead":       "candidate/sandbox/docker:TestRequestsThatFail candidate/sandbox/docker:TestEngineThatHangs candidate/sandbox/docker:TestEngineThatDies docker_kill.txtar",
	"docker: interrupted":                    "candidate/sandbox/docker:TestInterrupted candidate/sandbox/docker:TestInterruptedWithLayers docker_pull.txtar",
	"git: fsmonitor, hooks, filters, upkeep": "checkout-fsmonitor git-hooks git-config git-upkeep p3_no_host_execution.txtar",
	"git: hides an edit":                     "git-hide git-ignore checkout-exclude git-commits",
	"crash: at each event, disk full":        "p7_kill.txtar cmd/bestof/app:TestKillAtEveryEvent cmd/bestof/app:TestHazardDiskFull worktree:TestHazardPowerFailure",
}

// TestCorpus: nothing of the corpus has lost what tries it.
func TestCorpus(t *testing.T) {
	const top = "../../.."
	for row, backed := range corpus {
		for name := range strings.FieldsSeq(backed) {
			folder, test, inTest := strings.Cut(name, ":")
			switch {
			case strings.HasSuffix(name, ".txtar"):
				if _, err := os.Stat(filepath.Join(top, "cmd/bestof/app/testdata/script", name)); err != nil {
					t.Errorf("%s: %v", row, err)
				}
			case inTest:
				if !hasTest(t, filepath.Join(top, folder), test) {
					t.Errorf("%s: %s has no test %s", row, folder, test)
				}
			default:
				if _, ok := hostile.Named(name); !ok {
					t.Errorf("%s: no attack %s", row, name)
				}
			}
		}
	}
}

func hasTest(t *testing.T, folder, test string) bool {
	files := must(filepath.Glob(filepath.Join(folder, "*_test.go")))(t)
	form := regexp.MustCompile(`(?m)^func ` + regexp.QuoteMeta(test) + `\(`)
	for _, f := range files {
		if form.Match(must(os.ReadFile(f))(t)) {
			return true
		}
	}
	return false
}
