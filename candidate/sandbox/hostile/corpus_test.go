package hostile_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/bestof-dev/bestof/candidate/sandbox/hostile"
)

// corpus says of each known way to win without the work, and then of each known
// danger of containers, of git, of candidates, of what verifies them, of
// plugins and tools and of crashes, what tries it: attacks of this package, by
// name, scripts of the command line, by file, and tests of other packages, as
// folder:Test. Each has to exist.
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
	"24 daemon that edits later":              "daemon-edits daemon-session daemon-double orchestrator:TestAgentIsGoneBeforeItIsVerified",
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

	"docker 01 image by id, never pulled unasked":   "candidate/sandbox/docker:TestPlanGrantsNothingElse candidate/sandbox/docker:TestImageThatIsNotThere candidate/sandbox/docker/image:TestPullOnlyWhatIsMissing",
	"docker 02 user, nothing left root's":           "candidate/sandbox/docker:TestContractAsAnotherUser candidate/sandbox/docker:TestImageIsNotObeyed docker_run.txtar",
	"docker 03-04 capabilities, new privileges":     "candidate/sandbox/docker:TestPlanGrantsNothingElse privileges capabilities",
	"docker 05 system calls":                        "call-uring call-userfault call-vsock call-clone3 call-x32 call-other-arch call-key internal/seccomp:TestFilter",
	"docker 06 read-only root":                      "candidate/sandbox/docker:TestPlanGrantsNothingElse mount-remount program-overwrite",
	"docker 07 network":                             "net-outside net-metadata net-name net-interfaces net-abstract net-host during-network network.txtar candidate/sandbox/egress:TestNamesThatLeadHome",
	"docker 08 limits":                              "candidate/sandbox/docker:TestLimitsHold candidate/sandbox/docker:TestMemoryOfAGroupAbove internal/proc:TestMemoryKiller bomb-memory bomb-processes bomb-files bomb-crash raise-limits docker_run.txtar",
	"docker 09 mounts":                              "candidate/sandbox/docker:TestPlanGrantsNothingElse candidate/sandbox/docker:TestPlanRefusesMountPointsInTheShadow engine-socket during-mounts read-home",
	"docker 10 namespaces, devices, first process":  "candidate/sandbox/docker:TestFirstProcessCannotBeHurt device-memory device-make ns-all enter-init mount-umount read-supervisor see-decoy",
	"docker 11 output":                              "bomb-log text-bytes candidate/sandbox/docker:TestDemux",
	"docker 12 labels":                              "candidate/sandbox/docker:TestReap candidate/sandbox/docker:TestOwner docker_gc.txtar",
	"docker 13 no archives, nothing run inside":     "candidate/sandbox/docker:TestNothingIsDoneInsideAContainer",
	"docker 14-15 environment, host name":           "env-keys host-name candidate/sandbox:TestHazardCandidatesDoNotMeet",
	"docker 16 masked paths, old runtimes":          "candidate/sandbox/docker:TestPlanGrantsNothingElse candidate/sandbox/docker:TestWarning knob-sysctl knob-sysrq knob-core",
	"docker 17 rootless, mapped users":              "candidate/sandbox/docker:TestProbe candidate/sandbox/docker:TestPlanFollowsTheEngine docker_gc.txtar",
	"docker 18 killed, lost, hung, dead, restarted": "candidate/sandbox/docker:TestRequestsThatFail candidate/sandbox/docker:TestWatch candidate/sandbox/docker:TestWatchIsShared candidate/sandbox/docker:TestEngineThatHangs candidate/sandbox/docker:TestEngineThatHangsIsGivenUp candidate/sandbox/docker:TestEngineThatDies candidate/sandbox/docker:TestEngineThatRestarts candidate/sandbox/docker:TestKilledFromOutside orchestrator:TestInfrastructureIsTriedAgain docker_kill.txtar",
	"docker: interrupted":                           "candidate/sandbox/docker:TestInterrupted candidate/sandbox/docker:TestInterruptedWithLayers docker_pull.txtar docker_warm.txtar",

	"git 01 fsmonitor, hooks, hooksPath":                  "git-config git-hooks checkout-fsmonitor p3_no_host_execution.txtar worktree:TestHazardHooksDoNotRun",
	"git 02 filters, textconv, external diffs, signing":   "git-config p3_no_host_execution.txtar worktree:TestHazardCandidates worktree:TestHazardHooksDoNotRun",
	"git 03 armed submodules":                             "git-link git-modules worktree:TestHazardSubmoduleIsArmed",
	"git 04 .git files, worktree configuration, includes": "dotgit-file dotgit-link git-config git-bare git-alternates",
	"git 05 flags of the index, same size and time":       "git-hide worktree:TestHazardCandidates",
	"git 06 .gitignore, info/exclude":                     "git-ignore checkout-exclude worktree:TestHazardCandidates",
	"git 07 amended base":                                 "git-commits git-upkeep worktree:TestHazardCandidates",
	"git 08 nested repositories":                          "git-nested worktree:TestHazardCandidates hazards_candidates.txtar",
	"git 09 conversions":                                  "git-config worktree:TestHazardConversionsAreNoEdits worktree:TestHazardFilterDecidedByContent",
	"git 10 refused on adoption":                          "worktree:TestHazardRefusedPaths worktree:TestHazardDirectoryBecomesALink name-ours",

	"candidate commits, resets, branches, stashes": "git-commits git-upkeep hazards_candidates.txtar worktree:TestHazardCandidates",
	"candidate writes by absolute path":            "checkout-edit checkout-file sibling-write own-record escaped.txtar p1_untouched.txtar",
	"candidate gc, config, hooks, attributes":      "git-upkeep git-config git-hooks checkout-hook checkout-ref",
	"candidate looks for the fix":                  "fix-log fix-refs fix-objects fix-fsck fix-fetch fix-files p4_cannot_see.txtar worktree:TestHazardTheFixIsNotThere",
	"candidate deletes or replaces its directory":  "root-gone root-link root-locked home-gone home-link hazards_candidates.txtar worktree:TestHazardShadowDirectoryReplaced",
	"candidate nests a repository":                 "git-nested git-bare hazards_candidates.txtar",
	"candidate asks for somebody":                  "home-prompt hazards_candidates.txtar candidate/sandbox:TestHazardNobodyIsAsked",
	"candidate daemonises, ignores TERM":           "daemon-session daemon-double daemon-stubborn daemon-chain ignore-term p7_kill.txtar docker_kill.txtar interrupt_twice.txtar internal/proc:TestNothingOutlivesRun",
	"candidates meet at a port, a home, a project": "net-port hazards_candidates.txtar candidate/sandbox:TestHazardCandidatesDoNotMeet",
	"candidate floods":                             "bomb-log text-bytes text-controls hazards_candidates.txtar internal/proc:TestCapture",
	"candidate changes nothing":                    "cheat-nothing orchestrator:TestOnlyMetCandidatesWin",
	"candidate takes too long":                     "limits.txtar daemon-stubborn",

	"verified: tests edited, deleted, moved, skipped, shadowed": "cheat-edits cheat-deletes cheat-renames cheat-skips cheat-restored hazards_verification.txtar worktree:TestVerificationProtects orchestrator/plan:TestTampered",
	"verified: settings, shims, stale caches":                   "cheat-conftest cheat-settings cheat-sitecustomize cheat-tools cheat-cache orchestrator/plan:TestProtected hazards_verification.txtar",
	"verified: ends early, runs nothing, runs less":             "cheat-exit cheat-fewer hazards_go.txtar plugin/verify:TestFewerTests plugin/verify:TestHazardsExitBeforeTests internal/testreport:TestOf orchestrator:TestNamed",
	"verified: planted results":                                 "cheat-results during-result-files verify_forged.txtar plugin/verify:TestResultsTravel",
	"verified: passes already":                                  "expect.txtar batch_run.txtar compare_batch.txtar",
	"verified: flaky":                                           "sandbox_repeat.txtar limits.txtar orchestrator:TestFoldKeepsTheWorstRepetition plugin/verify:TestBaseline",
	"verified: hangs, out of memory":                            "cheat-hangs cheat-dies during-kills-verifier limits.txtar docker_run.txtar candidate/sandbox/docker:TestFirstProcessWithoutMemory",
	"chosen: all fail, tie, infrastructure is no vote":          "orchestrator:TestWithoutWinner orchestrator/batch/report:TestHazardsInfrastructureIsNoVote judge:TestRank run_winner.txtar",
	"chosen: in any order":                                      "judge:TestRankIsInvariantUnderPermutation orchestrator:TestOrderOfCandidatesDoesNotMatter p5_same_evidence.txtar",

	"engine: none, wrong context, no image, slow pull, hung": "candidate/sandbox/docker:TestEngineThatCannotBeUsed candidate/sandbox/docker:TestUserWithoutTheSocket candidate/sandbox/docker:TestHost candidate/sandbox/docker:TestWatchedBody candidate/sandbox/docker/image:TestRegistryThatAsksForPatience docker_gc.txtar docker_image.txtar docker_pull.txtar",
	"engine: what an earlier crash left":                     "candidate/sandbox/docker:TestReap docker_gc.txtar docker_kill.txtar docker_shadow.txtar",
	"engine: files of root's after a container":              "candidate/sandbox/docker:TestContractAsAnotherUser docker_shadow.txtar tree-locked tree-immutable",

	"plugins: hostile packages":                             "plugin/store:TestRefusals plugin/store:TestRepositoryThatLeadsAway plugin:TestPackageContents plugin_refused.txtar",
	"plugins: names and texts in the prompt":                "plugin:TestHostileConsent plugin:FuzzConsent plugin:TestNames",
	"plugins: unknown keys, capabilities, manifests":        "plugin:TestRefusals plugin:TestForeignManifests plugin:TestCapabilities",
	"plugins: changed between prompt, copy and run":         "plugin/store:TestShownIsInstalled plugin/store:TestDrift plugin/store:TestIntact plugin/store:TestKilledInstallation plugin_drift.txtar",
	"plugins: an update, a forged consent":                  "plugin:TestReconcile plugin/store:TestReceipts plugin_install.txtar",
	"plugins: keys and sockets of the operator's":           "plugin:TestWithheld plugin/call:TestNothingThatWasNotAgreedTo plugin/call:TestEnvironmentOfTheTest",
	"plugins: no answer, two, late, forged, endless, forks": "plugin/run:TestExchange plugin/run:TestTimeout plugin/call:TestExchange plugin/wire:TestReadResponse orchestrator:TestFaultyPluginDecidesNothing plugin/verify:TestNothingIsLeft",
	"tools 01 descriptions that instruct or hide":           "mcp:TestReviewOfTools mcp_grant.txtar mcp/gateway:TestWhatIsOffered",
	"tools 02 that change after the grant":                  "mcp/session:TestHazardSurfaceIsFrozen mcp:TestReviewLaw orchestrator:TestChangedToolsAreWithheld mcp/gateway:TestWithheldToolsSayWhy",
	"tools 03 of one name":                                  "mcp:TestWireNamesAreInjectiveAndLegal mcp:TestACollisionLosesBothRoutes mcp/gateway:TestACollidingNameLeadsNowhere tool-name",
	"tools 04 environment":                                  "mcp/session:TestHazardEnvironmentIsExact mcp/session:TestHazardAServerRepeatsItsSecrets",
	"tools 05 floods":                                       "mcp/session:TestHazardServersThatMisbehaveButAnswer mcp/session:TestHazardAnswersThatAreNone mcp/session:TestLines tool-flood tool-large tool-deep",
	"tools 06-07 redirects, private addresses":              "mcp/session:TestHazardHTTPRedirectsCarryNothingAway mcp/login:TestAddressesOfTheWorld mcp/login:TestPlacesThatAreAskedForAServer",
	"tools 08-09 browsers, siblings":                        "tool-host tool-page tool-no-token tool-guessed-token tool-sibling-socket tool-session docker_warm_reach.txtar candidate/sandbox/docker:TestWarm mcp/gateway:TestOnlyTheHolderOfATokenIsServed mcp/gateway:TestSocketsAreTheirOwnersOnly",
	"tools 10 servers that ask":                             "mcp/session:TestNoCapabilityIsOffered",
	"tools 11 odd content":                                  "mcp/session:TestResultIsKept mcp/gateway:TestResultsPassThroughByteExact",
	"tools 12-13 rights and tokens":                         "tool-withheld mcp/gateway:TestHooksDecide mcp/session:TestTokens mcp/login:TestTokensAreKeptForTheOwnerAndOneAddress",
	"tools 14 servers that hang or crash":                   "mcp/session:TestHazardServersThatDoNotConnect mcp/session:TestHazardAServerThatHangs mcp/session:TestHazardAServerThatStopsReading mcp/session:TestBackingOff tool-slow",
	"tools 15 servers that are shared":                      "orchestrator:TestServersAreSharedByAllCandidates mcp_share.txtar mcp/gateway:TestCandidatesShareOneCall",
	"terminal, pages":                                       "text-ansi text-clipboard text-link text-controls text-forged internal/term:FuzzClean cmd/bestof/view:TestHostileTextIsInert cmd/bestof/view:TestPolicyAllowsOnlyTheStyle cmd/bestof/web:TestHazardHostileTexts",

	"crash: each request, each answer": "candidate/sandbox/docker:TestRequestsThatFail",
	"crash: at each event":             "p7_kill.txtar cmd/bestof/app:TestKillAtEveryEvent cmd/bestof/app:TestKillBatchAtEveryEvent cmd/bestof/app:TestKillJobAtEveryStep worktree:TestHazardKillDuringAdopt",
	"crash: disk full, power":          "cmd/bestof/app:TestHazardDiskFull cmd/bestof/app:TestBatchOnAFullDisk cmd/bestof/app:TestJobOnAFullDisk worktree:TestHazardPowerFailure",
	"crash: two at once":               "orchestrator/record:TestHazardTwoRunsOfOneMoment worktree:TestHazardRunNameIsClaimedOnce worktree:TestHazardGCAfterAKill p6_gc.txtar docker_gc.txtar",
	"crash: interrupted twice":         "interrupt_twice.txtar batch_stop.txtar",
	"crash: clocks":                    "orchestrator/schedule/runner:TestHazardClockSetBack orchestrator/schedule/runner:TestHazardClockSetBackAndForward orchestrator/schedule:TestTheNightsOnWhichClocksArePut",
	"crash: many turns":                "orchestrator:TestManyTurnsLeaveNothing orchestrator/record:TestHazardManyRuns",
	"crash: fuzzed parsers":            "plugin:FuzzParse plugin/wire:FuzzDecode orchestrator/schedule:FuzzCron orchestrator/compare:FuzzDiff cmd/bestof/view:FuzzViews mcp/session:FuzzTool internal/term:FuzzClean candidate/sandbox/docker:FuzzDemux",
	"crash: pictures":                  "cmd/bestof/view:TestGoldens cmd/bestof/view:TestFramesFit cmd/bestof/view:TestCompareHTMLGolden cmd/bestof/view:TestJSONL",
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
