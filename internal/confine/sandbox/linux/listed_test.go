//go:build linux && (amd64 || arm64)

package linux_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// listed are the ways out and the abuses that are tried, each with the tests
// that try it. Those of this folder are named alone; others have their folder in
// front, below internal. An attempt that is one of the tables of TestEscapes and
// TestKernelEscapes carries its number there.
var listed = map[int]struct {
	what  string
	tests string
}{
	// files
	1:  {"`..`, odd spellings of paths", "TestEscapes confine/files/TestTraversalPayloads confine/files/FuzzClean"},
	2:  {"absolute links in the workspace", "TestEscapes confine/files/TestLinksOut"},
	3:  {"links that the command makes itself", "TestEscapes confine/files/TestLinksOut"},
	4:  {"a name that is swapped between a folder and a link", "TestEscapes confine/files/TestSwappedFolder confine/files/TestSwappedName"},
	5:  {"a folder that is moved away while somebody walks in it", "confine/files/TestMovedFolder TestFoldersAroundWhatIsDeniedStay"},
	6:  {"the kernel's own links: /proc/self/root and others", "TestEscapes confine/files/TestSpecialFilesFailAtOnce confine/files/TestWalkingAgreesWithOpenat2"},
	7:  {"hard links to what is not writable", "TestEscapes confine/files/TestHardLinks"},
	8:  {"links, devices and setuid files in a layer that is applied", "confine/changeset/TestForgedUpper confine/changeset/TestCommandForges"},
	9:  {"forged marks of overlays", "TestKernelEscapes confine/changeset/TestForgedUpper confine/changeset/TestCommandForges"},
	10: {"writes to what is read-only, also by another way than opening it", "TestEscapes TestKernelEscapes"},
	11: {"the runtime's own program overwritten", "TestEscapes TestProgramsAreNotOverwritten"},
	12: {"the old root, by what is left of it, or while the new one is made", "TestEscapes TestNoDescriptorIsInherited TestEscapesWhileASandboxIsMade TestEscapesThroughTheSandboxesOwnLinks"},
	13: {"modes, owners, times and attributes of others' files", "TestEscapes"},
	14: {"setuid programs", "TestSetuidProgramsGiveNothing TestEscapes TestKernelEscapes"},
	15: {"files that others' programs run by themselves", "TestEscapesByDeniedNamesThatAreLinks TestFoldersAroundWhatIsDeniedStay confine/sandbox/TestProfilesFollowTheFileRules authority/policy/TestSensitiveNames confine/changeset/TestRefusedByPolicy"},
	16: {"names that do something when they are shown", "record/report/TestHostileTextIsShownNotObeyed confine/changeset/TestText base/redact/FuzzShow"},
	17: {"full disks, too many files", "TestBombsAreBounded TestFilesOfPrivateFoldersAreCounted TestLimitsAreKeptAndNamed confine/changeset/TestHeldCommandIsBounded"},
	18: {"huge and special files as results", "confine/files/TestCaps confine/files/TestManyEntries confine/files/TestSpecialFilesFailAtOnce"},
	19: {"leases on files that others open", "TestEscapes"},
	20: {"look-alikes of denied names", "TestEscapes authority/policy/glob/TestFoldingMatchesLookAlikes tools/builtin/fs/TestLookAlikesAndCase"},
	// /proc, /sys, /dev
	21: {"secrets of other processes in /proc", "TestEscapes"},
	22: {"the sandbox's first process", "TestEscapes"},
	23: {"the kernel's settings and memory in /proc", "TestEscapes TestKernelEscapes"},
	24: {"sysfs", "TestEscapes"},
	25: {"devices", "TestEscapes TestKernelEscapes"},
	26: {"control groups", "TestEscapes TestKernelEscapes TestAWholeCommandIsBounded"},
	// processes, namespaces
	27: {"ptrace and others' memory", "TestKernelEscapes TestRefusedCalls"},
	28: {"signals to others", "TestKernelEscapes"},
	29: {"another sandbox", "TestSandboxesDoNotMeet TestPrivateFoldersAreFresh TestASessionEndsWhere TestEachSandboxHasItsOwnProxy"},
	30: {"daemons", "TestNothingOutlivesACommand TestNothingOutlivesACommandOfWeakerTiers"},
	31: {"processes that ignore signals, or are stopped", "TestNothingOutlivesACommand"},
	32: {"the runtime killed in the middle", "TestKillNineAtRandomMoments TestKillingTheRuntimeLeavesNothing TestKillingTheRuntimeEndsItsSessions TestGroupsOfADeadRuntimeAreRemoved confine/changeset/TestHeldRunKilled e2e/TestKillNineOfAHeldCommand"},
	33: {"output held open", "TestNothingOutlivesACommand"},
	34: {"being the first process; children that nobody waits for", "TestHowACommandEndsIsReported TestOrphansAreWaitedFor TestManyProcessesOneAfterAnother"},
	35: {"new user namespaces", "TestKernelEscapes TestRefusedCalls"},
	36: {"mounts", "TestKernelEscapes TestRefusedCalls"},
	37: {"other tables of system calls, new numbers", "TestKernelEscapes TestTheFilterFollowsTheRules"},
	38: {"io_uring", "TestKernelEscapes TestRefusedCalls"},
	39: {"keys", "TestKernelEscapes TestRefusedCalls"},
	40: {"bpf, perf, userfaultfd, modules and the like", "TestKernelEscapes TestRefusedCalls"},
	41: {"priorities and personalities", "TestKernelEscapes"},
	42: {"a program that the policy does not name, by another name", "TestBadCommands TestAProgramInTheWorkspaceNeedsItsPathSpelled authority/policy/command/TestMatchFacts"}, // what runs inside starts what it can see: a known limit
	43: {"variables that change what programs do", "TestBadCommands authority/policy/command/TestScript"},
	// resources
	44: {"fork bombs", "TestBombsAreBounded TestAWholeCommandIsBounded"},
	45: {"memory bombs", "TestBombsAreBounded TestAWholeCommandIsBounded"},
	46: {"busy loops", "TestLimitsAreKeptAndNamed"},
	47: {"floods of output", "TestAFloodIsCut"},
	48: {"descriptors used up", "TestNoDescriptorsLeft TestLimitsAreKeptAndNamed"},
	49: {"core dumps", "TestKernelEscapes"},
	50: {"bombs in what is parsed", "authority/policy/TestParseRefuses authority/policy/glob/TestHostilePatternsAreFast confine/network/TestResponseIsCappedAfterDecompression"},
	51: {"what the kernel counts for a user used up", "TestOneSandboxCannotStarveAnother"},
	52: {"thousands of sandboxes", "TestNothingLeaks TestManySessionsLeaveNothing"},
	// descriptors, sockets, terminals
	53: {"inherited descriptors", "TestNoDescriptorIsInherited TestEscapes"},
	54: {"folders among them", "TestNoDescriptorIsInherited"},
	55: {"abstract sockets", "TestEscapes TestTheWayOutLeadsNowhereElse"},
	56: {"sockets with a path", "TestEscapes confine/sandbox/TestProfilesFollowTheFileRules"},
	57: {"descriptors sent to the runtime", "TestNoDescriptorIsInherited"}, // no socket of the runtime's is in there
	58: {"typing for others on a terminal", "TestTypingForOthers TestKernelEscapes TestACommandOnATerminal"},
	59: {"escape codes in output", "record/report/TestHostileTextIsShownNotObeyed base/redact/FuzzShow"},
	60: {"System V objects and POSIX queues", "TestKernelEscapes TestSandboxesDoNotMeet"},
	61: {"sockets of other families", "TestKernelEscapes"},
	// the network
	62: {"connections around the proxy", "TestEscapes TestKernelEscapes TestTheWayOutLeadsNowhereElse TestAWayOutIsTheOnlyOne TestWhatIsReachedOfTheNetworkIsWhatThePolicyAllows"},
	63: {"data in DNS questions", "confine/egress/TestNamesAreLookedUpOnlyOnceAllowed TestTheWayOutLeadsNowhereElse"},
	64: {"metadata addresses", "confine/egress/TestNoWayToWhatIsNotPublic"},
	65: {"forbidden addresses in other spellings", "confine/egress/TestNoWayToWhatIsNotPublic authority/policy/target/TestRefusedURLs"},
	66: {"DNS rebinding", "confine/egress/TestTheCheckedAddressIsTheOneDialled confine/network/TestRebindingIsNotFollowed"},
	67: {"a tunnel used for another host", "confine/egress/TestATunnelIsForItsHostAlone confine/egress/TestInspectedTunnelsAreForTheirHostAlone"},
	68: {"redirects, other ports, look-alikes of hosts", "confine/egress/TestTheProxyAndThePolicyAgree confine/network/TestRedirectsAreDecidedAnew authority/policy/target/TestRuleMatches"},
	69: {"request smuggling", "confine/egress/TestSmugglingIsRefused confine/egress/TestBodiesEndWhereTheySay confine/egress/FuzzHead"},
	70: {"another sandbox's proxy", "confine/egress/TestEachSandboxHasItsOwnCredentials TestEachSandboxHasItsOwnProxy"},
	71: {"the host's loopback by the proxy", "confine/egress/TestNoWayToWhatIsNotPublic TestWhatIsReachedOfTheNetworkIsWhatThePolicyAllows"},
	72: {"more bytes than allowed", "confine/egress/TestTheTotalHoldsForAllConnectionsTogether confine/egress/TestBudgetsBoundEachWay"},
	73: {"secrets sent elsewhere, or echoed", "confine/egress/TestSecretsAreAddedOnlyWhereTheyBelong confine/network/TestASecretThatIsEchoedIsHidden"},
	// identity and authority
	74: {"variables of the runtime", "TestEscapes TestAllowedThingsWork"},
	75: {"keys and start-up files of the person", "TestEscapes authority/policy/TestSensitiveNames TestStateFolderBehindALinkIsOutOfSight"},
	76: {"forged, old and widened grants", "authority/grant/token/TestForgeries authority/grant/token/TestReplay call/standing/TestNoInterleavingLetsACallStartAfterItsRevocation"},
	77: {"a tool with more authority used by one with less", "call/runner/TestSourcesBoundCalls authority/policy/TestChains"},
	78: {"a machine without some layer", "TestAMaskedProcRunsNothing TestTheStrongestIsolationIsUsedOrTheCommandRefused TestWhatNeedsFullIsolationIsRefused"},
	79: {"forged and lost records", "record/eventlog/TestNothingInjectsALine call/runner/TestIntentIsRecordedBeforeTheToolRuns e2e/TestKillNineLosesNothing"},
	80: {"the clock", "TestKernelEscapes TestRefusedCalls"},
}

// Every attempt of the list has a test that is there, and the tables name no
// attempt that is not on the list.
func TestEveryAttemptIsTried(t *testing.T) {
	there := map[string]map[string]bool{}
	find := func(dir string) map[string]bool {
		if there[dir] != nil {
			return there[dir]
		}
		there[dir] = map[string]bool{}
		list, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
		must(t, err)
		for _, name := range list {
			b, err := os.ReadFile(name)
			must(t, err)
			for _, m := range regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`).FindAllSubmatch(b, -1) {
				there[dir][string(m[1])] = true
			}
		}
		return there[dir]
	}
	for no := 1; no <= 80; no++ {
		a, ok := listed[no]
		if !ok || a.what == "" || a.tests == "" {
			t.Errorf("attempt %d is not on the list", no)
		}
		for _, ref := range strings.Fields(a.tests) {
			dir, name := filepath.Split(ref)
			if dir != "" {
				dir = filepath.Join("../../..", dir)
			}
			if !find(filepath.Clean(dir))[name] {
				t.Errorf("attempt %d (%s): there is no %s", no, a.what, ref)
			}
		}
	}
	tables := newHostOnly(t, denyingPolicy)
	for test, list := range map[string][]attempt{"TestEscapes": tables.fileAttempts(), "TestKernelEscapes": tables.kernelAttempts()} {
		tried := map[int]bool{}
		for _, a := range list {
			tried[a.no] = true
			if !slices.Contains(strings.Fields(listed[a.no].tests), test) {
				t.Errorf("%q is attempt %d, of which the list does not name %s", a.name, a.no, test)
			}
		}
		for no, a := range listed {
			if !tried[no] && slices.Contains(strings.Fields(a.tests), test) {
				t.Errorf("attempt %d (%s) is none of %s", no, a.what, test)
			}
		}
	}
}
