//go:build !race

// Package remit_test holds the house rules as tests: which package may import
// what, and which calls are made where. They read sources, so the race detector does not
// watch them.
package remit_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/remitrun/remit/"

// mayImport says for each package, by its path below internal/, what it may
// import: packages of the house by that same path, other modules by their
// import path's beginning, and of the standard library those in guardedStd; the
// rest of the standard library is free. A new package needs a line: its review
// is the review of what the package may reach. Tests are not bound by it.
//
// Arrows point down the list of folders.
var mayImport = map[string]string{
	// words
	"base/fault":           "",
	"base/tool":            "base/fault",
	"base/near":            "",
	"base/pause":           "net/http",
	"base/eventstream":     "",
	"base/regex":           "",
	"base/canon":           "base/fault",
	"service/grants":       "authority/dpop record/eventlog service/policies call/standing authority/grant record/ledger service/home call/runner call/budget authority/policy/compare github.com/google/uuid authority/policy record/store base/wholefile base/fault base/tool crypto/rand os authority/policy/glob authority/grant/token",
	"service/agentlogins":  "base/fault base/wholefile net/http os",
	"service/secrets":      "service/agentlogins call/runner confine/secret authority/policy base/fault base/redact service/policies record/ledger service/home",
	"service/policies":     "os confine/repository authority/policy base/wholefile base/fault authority/grant service/home record/ledger call/runner",
	"service/filelabels":   "base/fault github.com/google/uuid syscall authority/policy base/tool call/runner confine/files record/ledger record/store os",
	"service/runs":         "authority/policy/glob confine/repository base/walk authority/provenance service/filelabels authority/grant call/replay confine/database service/notify call/approval confine/changeset base/wholefile call/plan call/schedule service/changes os github.com/google/uuid call/catalog confine/sandbox authority/policy service/approvals base/tool confine/files record/eventlog record/store agents/agent service/home record/ledger service/secrets base/canon call/runner call/frozen authority/permit service/grants authority/policy/command authority/policy/learn confine/network tools/builtin/shell base/fault service/policies",
	"service/workers":      "base/fault base/tool authority/permit authority/policy confine/remote confine/remote/wire confine/remote/worker confine/sandbox record/ledger record/store service/home golang.org/x/mod/sumdb crypto/rand net",
	"service/queue":        "agents/agent base/fault base/wholefile base/regex base/tool authority/policy call/plan call/runner record/ledger record/store service/grants service/home service/policies service/runs github.com/google/uuid github.com/netresearch/go-cron os",
	"service/measures":     "base/fault call/runner record/ledger record/store record/telemetry service/notify",
	"service/hooks":        "authority/permit authority/policy authority/policy/command authority/policy/glob base/canon base/fault base/tool call/runner confine/sandbox github.com/google/uuid net/http service/notify service/settings",
	"service/notify":       "os base/wholefile authority/policy/target math/rand/v2 base/clip base/fault base/redact service/settings github.com/godbus/dbus net net/http syscall",
	"service/approvals":    "service/settings authority/policy authority/policy/edit authority/policy/learn base/wholefile service/policies service/notify base/fault record/store call/approval call/catalog base/tool service/home record/ledger call/runner base/canon service/grants github.com/google/uuid",
	"service/changes":      "confine/repository base/diff github.com/google/uuid base/fault record/store confine/changeset service/settings call/replay authority/policy confine/sandbox base/tool service/home record/ledger call/runner",
	"service/apis":         "authority/permit record/ledger service/signin golang.org/x/oauth2 base/fault call/runner service/secrets tools/source/openapi authority/policy authority/policy/target service/home service/runs call/catalog base/tool base/wholefile",
	"service/images":       "base/fault base/wholefile confine/image confine/sandbox service/home os",
	"service/modules":      "base/regex record/eventlog call/catalog base/tool base/wholefile tools/executor/wasm base/fault base/clip tools/source/wasm os service/secrets service/home",
	"tools/packages":       "base/canon base/clip base/fault base/regex github.com/BurntSushi/toml",
	"service/servers":      "base/walk github.com/BurntSushi/toml base/redact tools/packages authority/policy/glob base/clip base/regex tools/builtin/shell service/settings service/home service/runs authority/policy/target record/eventlog confine/network base/wholefile service/secrets call/runner os tools/source/mcp confine/sandbox base/tool authority/policy call/catalog base/canon base/fault net base/document authority/permit service/signin confine/secret record/ledger tools/infer",
	"service/extensions":   "base/walk call/catalog record/ledger service/home authority/policy call/plan base/fault syscall github.com/google/uuid service/runs confine/sandbox base/inspect tools/source/extension authority/permit base/wholefile tools/executor/wasm tools/extension base/tool call/runner service/modules os agents/chat",
	"service/overview":     "authority/policy base/walk base/wholefile confine/changeset confine/sandbox os record/ledger record/store record/store/sqlite service/home syscall",
	"service/history":      "base/canon base/tool base/redact record/report record/eventlog service/home record/ledger base/fault github.com/google/uuid tools/extension record/store service/runs",
	"service/replays":      "service/apis service/agents service/runs service/home base/tool github.com/google/uuid call/plan record/store call/catalog tools/model call/schedule call/replay agents/agent call/runner authority/grant base/fault record/ledger service/servers agents/capability authority/policy",
	"service/policyreview": "authority/reach authority/provenance service/servers confine/sandbox call/runner service/replays authority/policy/learn service/runs base/tool github.com/google/uuid tools/model authority/permit call/replay service/modules base/wholefile authority/policy/compare base/fault record/store record/ledger authority/policy/cases call/catalog service/policies authority/grant service/home authority/policy agents/capability service/apis",
	"service/models":       "service/secrets confine/secret base/wholefile tools/builtin/modelchat tools/model service/home base/fault authority/policy tools/model/scripted tools/model/anthropic tools/model/openai service/settings",
	"service/agents":       "authority/provenance os service/policies base/wholefile tools/builtin/modelchat record/ledger service/models tools/model agents/agent service/home call/approval service/runs authority/policy/glob base/fault service/approvals authority/policy service/grants call/runner github.com/google/uuid call/replay record/store agents/capability/custom agents/capability base/tool authority/permit call/catalog service/secrets authority/grant",
	"base/garbage":         "runtime/debug",
	"base/homedir":         "",
	"base/memo":            "",
	"base/glyph":           "",
	"base/diff":            "github.com/rogpeppe/go-internal/diff",
	"base/diff/difftest":   "base/diff pgregory.net/rapid",
	"service/slash":        "agents/agent call/frozen service/policies call/approval service/grants authority/policy service/home record/store agents/chat tools/builtin/analyze base/tool base/fault service/extensions tools/builtin/modelchat service/runs github.com/google/uuid os call/runner base/wholefile tools/extension",
	"service/clients":      "confine/sandbox crypto/rand golang.org/x/sys service/agentlogins base/walk confine/repository authority/policy authority/policy/profile authority/policy/target github.com/BurntSushi/toml base/regex base/wholefile service/home base/canon base/fault github.com/google/uuid github.com/tailscale/hujson os",
	"service/people":       "authority/policy base/canon base/clip base/fault base/pause base/redact record/ledger record/store service/grants service/home service/policies service/settings github.com/google/uuid github.com/coreos/go-oidc/v3/oidc golang.org/x/oauth2 crypto/rand net net/http syscall",
	"service/callers":      "authority/dpop service/people service/home record/store github.com/google/uuid authority/grant authority/grant/token agents/agent base/fault base/memo service/policies record/ledger base/tool service/grants",
	"doors/listen":         "net syscall base/fault base/wholefile",
	"service/home":         "confine/repository base/homedir base/walk base/near base/regex record/eventlog base/redact authority/policy base/fault base/tool base/wholefile call/runner record/ledger record/store service/settings github.com/google/uuid os os/user syscall crypto/rand",
	"service/settings":     "base/regex base/clip base/document base/fault tools/model authority/policy/target base/tool",
	// base: used by all
	"base/commitment": "base/canon base/fault base/tool",

	"base/clip":     "",
	"base/markdown": "base/redact github.com/mattn",
	"base/document": "base/regex base/canon base/clip base/fault base/near go.yaml.in/yaml/v4",
	"base/schema":   "base/clip base/near base/regex",
	// core: pure
	"authority/provenance":       "base/inspect base/near golang.org/x/text",
	"authority/policy":           "authority/provenance base/regex base/clip base/document base/fault base/near base/tool authority/policy/command authority/policy/glob authority/policy/language authority/policy/target",
	"authority/policy/cases":     "base/document base/fault base/tool authority/policy authority/policy/target",
	"authority/policy/language":  "",
	"authority/reach/waymap":     "authority/reach base/clip base/redact",
	"authority/reach":            "authority/policy authority/policy/language base/document base/fault base/near base/tool",
	"authority/policy/compare":   "authority/policy authority/policy/target base/tool",
	"authority/policy/translate": "base/document base/fault authority/policy authority/policy/command authority/policy/glob github.com/BurntSushi/toml",
	"authority/policy/edit":      "base/diff base/document base/fault authority/policy authority/policy/compare authority/policy/learn",
	"authority/policy/learn":     "golang.org/x/net/publicsuffix base/regex base/fault base/tool authority/policy authority/policy/command authority/policy/glob authority/policy/target",
	"authority/policy/profile":   "base/fault authority/policy",
	"authority/policy/glob":      "authority/policy/language golang.org/x/text",
	"authority/policy/target":    "base/fault base/regex base/tool authority/policy/glob authority/policy/language code.dny.dev/ssrf golang.org/x/net/idna",
	"authority/policy/command":   "base/regex base/fault base/tool authority/policy/glob authority/policy/language mvdan.cc/sh/v3/syntax",
	"authority/grant":            "base/fault authority/policy authority/policy/glob base/tool github.com/google/uuid",
	"authority/grant/token":      "base/memo base/fault authority/grant authority/policy authority/policy/glob base/tool github.com/fxamacker/cbor/v2 github.com/google/uuid",
	"authority/dpop":             "base/canon base/clip base/fault github.com/go-jose/go-jose/v4",
	"authority/permit":           "base/clip base/fault authority/policy base/tool",
	"record/ledger":              "base/canon base/fault authority/policy base/tool github.com/fxamacker/cbor/v2 github.com/google/uuid golang.org/x/mod/sumdb",
	"call/plan":                  "base/commitment base/regex base/document base/canon base/fault base/near base/tool",
	"call/frozen":                "base/clip base/canon base/fault call/plan base/tool golang.org/x/mod/sumdb",
	"base/redact":                "base/glyph base/regex",
	"record/report":              "base/commitment base/clip base/fault base/glyph record/ledger authority/policy base/redact base/tool github.com/google/uuid golang.org/x/text/width",
	"tools/infer":                "base/tool",
	"tools/extension":            "base/regex base/clip base/document base/canon base/fault authority/policy authority/policy/glob base/tool",
	"base/inspect":               "base/clip base/glyph golang.org/x/text",
	// contracts
	"record/store": "base/pause golang.org/x/mod/sumdb base/fault authority/grant record/ledger base/tool github.com/google/uuid",
	// contract suites, for tests
	"base/racetest":                    "os runtime/debug",
	"base/walk/walktest":               "base/racetest base/walk golang.org/x/sys os",
	"app/apptest":                      "app service/home",
	"service/people/oidctest":          "crypto/rand net/http",
	"record/store/storetest":           "math/rand/v2 authority/policy authority/grant base/fault base/tool record/ledger record/store github.com/google/uuid github.com/google/go-cmp crypto/rand",
	"tools/model/modeltest":            "base/fault tools/model github.com/google/go-cmp net/http os",
	"agents/capability/capabilitytest": "agents/capability authority/permit authority/permit/permittest base/fault base/inspect base/tool",
	"authority/permit/permittest":      "base/schema authority/permit authority/policy base/fault base/tool github.com/google/uuid crypto/rand os",
	"service/skeleton":                 "base/fault base/regex base/wholefile os",
	"tools/model":                      "base/eventstream base/pause base/clip base/canon base/fault base/regex net/http",
	"agents/capability":                "authority/policy call/runner base/commitment base/regex base/clip base/schema base/canon base/fault base/near authority/permit base/tool github.com/google/uuid",
	// engine
	"agents/agent":  "authority/provenance base/pause call/frozen base/commitment base/clip tools/typed base/canon base/schema agents/capability base/fault authority/grant record/ledger tools/model base/near authority/permit authority/policy call/runner record/store base/tool github.com/google/uuid crypto/rand base/redact",
	"call/runner":   "authority/provenance authority/policy/cases base/clip base/commitment base/canon base/fault call/frozen authority/grant record/ledger authority/permit call/plan authority/policy base/tool github.com/google/uuid",
	"call/standing": "base/memo base/fault authority/grant authority/grant/token record/ledger authority/policy record/store github.com/google/uuid",
	"call/budget":   "base/fault authority/grant record/ledger call/runner record/store base/tool github.com/google/uuid",
	"call/approval": "base/diff authority/policy authority/policy/learn base/clip base/canon base/fault base/redact call/runner record/store base/tool github.com/google/uuid",
	"call/schedule": "base/canon base/fault record/ledger call/plan authority/policy call/runner base/tool",
	"call/replay":   "authority/provenance base/canon base/fault call/frozen authority/grant record/ledger authority/permit call/plan authority/policy call/runner call/schedule record/store base/tool github.com/google/uuid",
	"call/catalog":  "base/schema authority/permit base/canon base/fault tools/infer base/inspect base/near call/runner base/tool base/diff",
	// the server for tests of record/store/postgres
	"record/store/postgres/postgrestest": "github.com/jackc/pgx/v5 os os/exec",
	// the ledger's database
	"service/backups":   "base/walk syscall base/fault base/wholefile record/ledger record/store record/store/postgres record/store/sqlite record/store/tables service/home service/witnesses filippo.io/age golang.org/x/mod/sumdb os",
	"service/database":  "os syscall authority/policy base/fault base/wholefile record/ledger record/store record/store/tables record/store/postgres record/store/sqlite service/home service/nodes service/secrets service/settings",
	"service/witnesses": "base/fault base/wholefile record/ledger record/store record/witness service/home service/notify service/settings github.com/google/uuid net/http os crypto/rand",
	"service/keys":      "base/fault record/ledger record/store record/store/tables service/grants service/home service/secrets os",
	"service/nodes":     "base/fault base/wholefile record/store service/home os",
	"service/doctor":    "record/store service/changes service/clients service/database service/home service/witnesses",
	"service/erasures":  "base/fault record/store service/changes service/home",
	// adapters
	"record/witness":           "base/fault base/wholefile record/ledger golang.org/x/mod/sumdb net/http os",
	"record/eventlog":          "base/redact github.com/DeRuina/timberjack os",
	"base/wholefile":           "golang.org/x/sys os syscall",
	"base/walk":                "golang.org/x/sys os syscall crypto/rand",
	"record/store/tables":      "base/pause base/wholefile base/fault authority/grant record/ledger record/store base/tool authority/policy github.com/google/uuid github.com/klauspost/compress golang.org/x/mod/sumdb golang.org/x/sync os crypto/rand",
	"record/store/postgres":    "base/pause base/wholefile base/fault record/ledger record/store record/store/owners record/store/tables github.com/google/uuid github.com/jackc/pgx/v5 crypto/rand net os",
	"record/store/owners":      "github.com/google/uuid golang.org/x/sys os",
	"record/store/sqlite":      "base/wholefile base/fault record/ledger record/store record/store/owners record/store/tables github.com/google/uuid golang.org/x/sys modernc.org/sqlite os syscall",
	"confine/sandbox":          "base/wholefile base/walk base/clip base/fault base/near authority/permit authority/policy authority/policy/command base/tool golang.org/x/sys os net syscall",
	"confine/sandbox/seatbelt": "base/walk base/fault authority/permit authority/policy base/tool confine/sandbox golang.org/x/sys os os/exec net syscall unsafe",
	"confine/sandbox/linux":    "base/pause confine/repository base/clip base/walk base/wholefile base/regex base/fault authority/permit authority/policy authority/policy/target base/tool confine/sandbox confine/sandbox/seatbelt confine/sandbox/spawn confine/supervisor golang.org/x/net/bpf golang.org/x/net/dns/dnsmessage golang.org/x/sys github.com/landlock-lsm/go-landlock os os/exec net syscall unsafe crypto/rand",
	"confine/image/imagetest":  "github.com/klauspost/compress/zstd os",
	"confine/image":            "base/walk base/fault github.com/klauspost/compress/zstd os",
	"confine/remote":           "base/walk base/clip base/fault base/tool authority/permit authority/policy confine/changeset confine/remote/tree confine/remote/wire confine/sandbox golang.org/x/sys net net/http os",
	"confine/remote/tree":      "base/fault base/walk os syscall",
	"confine/remote/wire":      "base/fault base/tool authority/permit confine/changeset confine/sandbox",
	"confine/remote/worker":    "base/walk base/fault authority/permit authority/policy confine/changeset confine/remote/tree confine/remote/wire confine/sandbox confine/sandbox/linux crypto/rand net net/http os",
	"confine/placement":        "authority/permit authority/policy base/fault confine/sandbox confine/sandbox/linux",
	"confine/sandbox/spawn":    "base/fault golang.org/x/sys github.com/landlock-lsm/go-landlock os os/exec os/signal syscall unsafe",
	"confine/repository":       "base/fault base/regex base/wholefile github.com/bmatcuk/doublestar/v4 os syscall",
	"confine/files":            "confine/repository base/fault base/walk base/wholefile authority/permit authority/policy base/tool golang.org/x/sys os syscall crypto/rand",
	"confine/database":         "base/clip base/fault base/regex authority/permit authority/policy base/tool confine/network github.com/go-sql-driver/mysql github.com/jackc/pgx/v5/pgconn modernc.org/sqlite net os",
	"confine/browser":          "base/clip base/fault base/regex base/tool authority/permit confine/egress confine/sandbox os",
	"confine/network":          "base/fault authority/permit authority/policy authority/policy/target base/tool code.dny.dev/ssrf golang.org/x/net golang.org/x/sys net net/http syscall",
	"confine/supervisor":       "base/fault confine/sandbox/spawn golang.org/x/net/bpf golang.org/x/sys os unsafe crypto/rand",
	"confine/egress":           "base/pause confine/sandbox base/fault authority/permit authority/policy authority/policy/target base/tool confine/network golang.org/x/net/http/httpguts net net/http syscall crypto/rand",
	"confine/secret":           "base/regex base/wholefile base/fault filippo.io/age github.com/zalando/go-keyring golang.org/x/sys os",
	"confine/changeset":        "base/walk base/diff base/regex base/wholefile base/fault golang.org/x/sys os crypto/rand",
	"tools/typed":              "base/canon base/memo base/fault authority/permit base/tool",
	"tools/builtin/fs":         "base/clip tools/typed base/fault base/near authority/permit base/tool confine/files github.com/bmatcuk/doublestar/v4",
	"tools/builtin/websearch":  "tools/typed base/clip base/fault base/inspect authority/permit authority/policy/target base/tool confine/network net/http golang.org/x/net/html",
	"tools/builtin/http":       "tools/typed base/fault authority/permit authority/policy/target base/tool confine/network golang.org/x/net/http/httpguts net/http",
	"tools/builtin/shell":      "base/regex base/document tools/typed base/fault authority/permit authority/policy authority/policy/command base/tool confine/sandbox confine/files",
	"tools/builtin/db":         "tools/typed base/fault authority/permit base/tool confine/database",
	"tools/builtin/browser":    "tools/typed base/fault authority/permit authority/policy/target base/tool confine/browser confine/files confine/sandbox",
	"tools/builtin/clock":      "tools/typed base/fault authority/permit base/tool",
	"tools/builtin/analyze":    "tools/typed base/canon base/fault authority/permit base/tool",
	"tools/builtin/request":    "tools/typed base/fault authority/permit base/tool",
	"tools/builtin/random":     "tools/typed base/fault authority/permit base/tool crypto/rand",
	"tools/model/anthropic":    "base/pause base/fault tools/model net/http",
	"tools/model/openai":       "base/pause base/fault tools/model",
	"tools/model/scripted":     "base/clip base/document base/canon base/fault base/memo tools/model",
	"tools/builtin/modelchat":  "base/canon base/fault tools/model authority/permit confine/files confine/network base/tool net/http",
	"tools/source/openapi":     "base/pause base/clip base/document base/fault base/regex tools/infer authority/permit authority/policy/target confine/network base/tool golang.org/x/oauth2 net/http",
	"tools/source/extension":   "base/canon tools/extension base/fault tools/infer authority/permit authority/policy authority/policy/command authority/policy/target confine/sandbox base/tool",
	"tools/executor/wasm":      "base/pause base/regex base/clip base/schema base/document base/canon base/fault tools/infer authority/permit authority/policy confine/files base/tool github.com/tetratelabs/wazero crypto/rand",
	"tools/source/wasm":        "tools/executor/wasm",
	"tools/source/mcp":         "base/eventstream base/regex base/clip base/canon base/fault tools/infer authority/permit authority/policy authority/policy/target base/tool github.com/modelcontextprotocol/go-sdk golang.org/x/oauth2 net/http",
	// capabilities
	"agents/capability/noop":         "agents/capability",
	"agents/capability/currenttime":  "tools/typed agents/capability base/fault base/near authority/permit base/tool",
	"agents/capability/testmath":     "tools/typed agents/capability base/fault authority/permit base/tool",
	"agents/capability/testweather":  "tools/typed agents/capability base/fault authority/permit base/tool",
	"agents/capability/todolist":     "tools/typed agents/capability base/fault authority/permit base/tool",
	"agents/capability/sessionfiles": "tools/typed agents/capability base/fault authority/permit base/tool github.com/bmatcuk/doublestar/v4",
	"record/telemetry":               "net/http crypto/rand",
	"agents/capability/subagents":    "base/commitment tools/typed agents/capability base/fault authority/permit base/tool",
	"agents/capability/requests":     "agents/capability base/tool",
	"agents/capability/workspace":    "tools/typed agents/capability base/fault base/tool",
	"agents/capability/mcptools":     "base/regex tools/typed agents/capability base/fault base/tool",
	"agents/capability/research":     "tools/typed agents/capability agents/capability/webfetch base/fault authority/permit base/tool",
	"agents/capability/codebox":      "tools/typed agents/capability base/fault authority/permit confine/sandbox base/tool",
	"agents/capability/custom":       "base/clip base/document base/canon agents/capability base/fault base/tool",
	"agents/capability/webfetch":     "tools/typed agents/capability base/fault base/inspect authority/permit authority/policy/target confine/network base/tool net/http golang.org/x/net/html github.com/JohannesKaufmann/html-to-markdown/v2",
	// wiring and surfaces
	"doors/httpapi":    "service/nodes service/settings base/diff service/filelabels call/approval authority/reach doors/credential service/logins service/queue call/frozen base/commitment call/replay service/callers service/changes doors/admission agents/agent doors/hostcheck base/canon agents/capability base/fault base/tool call/catalog service/grants service/history service/policyreview service/replays tools/model record/ledger record/store record/telemetry github.com/danielgtaylor/huma/v2 github.com/google/uuid crypto/rand net net/http",
	"agents/chat":      "base/clip base/canon tools/extension base/fault base/near base/tool",
	"doors/credential": "authority/dpop base/fault doors/admission doors/hostcheck service/callers net/http",
	"doors/hostcheck":  "authority/dpop net net/http",
	"doors/admission":  "record/store net net/http syscall",
	"doors/hookrelay":  "base/fault doors/hookwire golang.org/x/sys net os",
	"doors/hookwire":   "golang.org/x/sys",
	"doors/port":       "base/fault crypto/rand net net/http",
	"doors/keeper":     "confine/sandbox confine/sandbox/linux base/fault base/pause base/wholefile doors/hookrelay doors/hookwire service/home golang.org/x/sys net os syscall",
	"doors/hook":       "doors/hookwire base/canon base/clip base/fault base/redact base/regex base/tool authority/policy golang.org/x/text/unicode/norm",
	"doors/gateway":    "authority/grant doors/credential service/grants service/callers github.com/google/uuid doors/admission call/approval doors/hostcheck base/canon base/fault authority/policy call/runner record/store base/schema base/tool github.com/modelcontextprotocol/go-sdk crypto/rand net net/http base/redact",
	"service/signin":   "base/fault net net/http",
	"service/logins":   "base/pause base/clip base/fault base/redact record/store crypto/rand net net/http",
	"service/devices":  "base/clip base/fault base/redact record/store service/grants service/home crypto/rand net net/http os",
	"doors/webui":      "base/diff service/filelabels authority/reach authority/reach/waymap doors/admission service/logins service/people service/queue agents/agent agents/capability agents/chat authority/grant base/clip base/fault base/glyph base/markdown base/memo base/redact call/approval call/catalog doors/httpapi record/ledger record/report record/store service/approvals service/changes service/devices service/grants service/history service/policyreview service/replays github.com/google/uuid net net/http",
	"app": `
		doors/admission doors/credential doors/gateway doors/httpapi doors/listen doors/webui
		service/agents service/apis service/approvals service/backups service/callers service/changes service/clients service/database service/devices service/doctor service/erasures service/extensions service/filelabels service/grants service/history service/home service/hooks service/images service/keys service/logins service/measures service/models service/modules service/nodes service/notify service/people service/policies service/policyreview service/queue service/replays service/runs service/secrets service/servers service/settings service/slash service/witnesses service/workers
		agents/agent agents/capability agents/capability/codebox agents/capability/currenttime agents/capability/mcptools agents/capability/noop agents/capability/requests agents/capability/research agents/capability/sessionfiles agents/capability/subagents agents/capability/testmath agents/capability/testweather agents/capability/todolist agents/capability/webfetch agents/capability/workspace
		call/approval call/catalog call/frozen call/runner
		tools/builtin/analyze tools/builtin/browser tools/builtin/clock tools/builtin/db tools/builtin/fs tools/builtin/http tools/builtin/modelchat tools/builtin/random tools/builtin/request tools/builtin/shell tools/builtin/websearch tools/model tools/source/mcp
		confine/browser confine/egress confine/placement confine/sandbox confine/sandbox/linux
		record/eventlog record/ledger record/report record/store record/store/sqlite record/telemetry
		authority/grant authority/permit authority/policy authority/policy/profile
		base/fault base/garbage base/inspect base/tool
		github.com/google/uuid
		net net/http os os/exec
	`,
	"cli": `
		doors/hook doors/hookrelay doors/hookwire doors/keeper doors/listen doors/port
		service/agents service/apis service/approvals service/backups service/changes service/clients service/database service/doctor service/erasures service/extensions service/filelabels service/grants service/history service/home service/images service/keys service/logins service/models service/modules service/notify service/overview service/policies service/policyreview service/queue service/replays service/runs service/secrets service/servers service/slash service/workers service/witnesses
		tools/packages
		agents/agent agents/capability agents/chat
		app
		call/approval call/catalog call/frozen call/plan call/runner
		tools/executor/wasm tools/extension service/skeleton tools/source/openapi
		confine/changeset confine/sandbox confine/secret
		record/ledger record/report record/store record/store/postgres
		authority/grant authority/grant/token authority/policy authority/policy/cases authority/policy/compare authority/policy/profile authority/policy/translate authority/reach authority/reach/waymap
		base/canon base/clip base/diff base/document base/fault base/garbage base/glyph base/inspect base/markdown base/near base/redact base/tool base/wholefile
		github.com/google/uuid github.com/mattn github.com/spf13/cobra github.com/spf13/pflag golang.org/x/mod golang.org/x/sys golang.org/x/term
		os os/signal syscall
	`,
	"cmd/remit":      "app cli base/fault confine/sandbox/spawn os os/signal syscall",
	"cmd/remit-hook": "base/homedir doors/hookwire golang.org/x/sys os os/signal syscall",
	// the public face
	".":         "service/changes base/commitment service/agents service/runs service/policies service/grants tools/typed service/home agents/agent app call/approval base/canon agents/capability base/fault call/frozen authority/grant authority/permit authority/policy record/ledger record/report call/runner confine/sandbox/spawn record/store base/tool github.com/google/uuid net/http os tools/model",
	"remittest": "github.com/remitrun/remit net/http",
	// what examples need to run
	"examples/demo/server": "net net/http os os/signal",
}

// guardedStd are the parts of the standard library through which the world is
// reached, or chance comes in.
var guardedStd = []string{"C", "crypto/rand", "io/ioutil", "log", "math/rand", "math/rand/v2", "net", "net/http", "net/rpc", "net/smtp",
	"net/textproto", "os", "os/exec", "os/signal", "os/user", "plugin", "syscall", "unsafe"}

// source is one Go file of the module that is no test.
type source struct {
	pkg  string // as mayImport names it
	name string
	file *ast.File
	fset *token.FileSet
}

// sources parses every Go file but tests, for all platforms.
func sources(t *testing.T) []source {
	t.Helper()
	var out []source
	fset := token.NewFileSet()
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name != "." && (ownModule(name) || strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || name == "bin") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(fset, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		pkg := strings.TrimPrefix(path.Dir(filepath.ToSlash(name)), "internal/")
		out = append(out, source{pkg, name, f, fset})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 20 {
		t.Fatalf("only %d files found: the test shows nothing", len(out))
	}
	return out
}

// ownModule reports whether a folder is a module of its own.
func ownModule(dir string) bool {
	m, err := filepath.Glob(filepath.Join(dir, "go.mod"))
	return err == nil && len(m) > 0
}

func TestArrows(t *testing.T) {
	for _, s := range sources(t) {
		line, ok := mayImport[s.pkg]
		if !ok {
			t.Errorf("%s: package %s has no line in mayImport", s.name, s.pkg)
			continue
		}
		allowed := strings.Fields(line)
		for _, spec := range s.file.Imports {
			imp, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if !importAllowed(imp, allowed) {
				t.Errorf("%s: %s may not import %s", s.fset.Position(spec.Pos()), s.pkg, imp)
			}
			if spec.Name != nil && spec.Name.Name == "." {
				t.Errorf("%s: a dot import hides where names come from", s.fset.Position(spec.Pos()))
			}
		}
	}
}

// onlyImporters are modules that one package alone imports, so that all others
// read the same way and within the same bounds.
var onlyImporters = map[string]string{
	"go.yaml.in/yaml": "base/document", // the one reader of YAML and JSON that people write
}

func TestOneReaderOfDocuments(t *testing.T) {
	found := map[string]bool{}
	for _, s := range sources(t) {
		for _, spec := range s.file.Imports {
			imp := strings.Trim(spec.Path.Value, "\"")
			for module, only := range onlyImporters {
				if imp != module && !strings.HasPrefix(imp, module+"/") {
					continue
				}
				found[module] = true
				if s.pkg != only {
					t.Errorf("%s: only %s may import %s", s.fset.Position(spec.Pos()), only, imp)
				}
			}
			if strings.Contains(imp, "yaml") && !strings.HasPrefix(imp, "go.yaml.in/yaml/v4") {
				t.Errorf("%s: %s is a second reader of YAML", s.fset.Position(spec.Pos()), imp)
			}
		}
	}
	for module := range onlyImporters {
		if !found[module] {
			t.Errorf("no package imports %s: the test shows nothing", module)
		}
	}
}

func importAllowed(imp string, allowed []string) bool {
	if own, ok := strings.CutPrefix(imp, module); ok {
		return slices.Contains(allowed, strings.TrimPrefix(own, "internal/"))
	}
	if first, _, _ := strings.Cut(imp, "/"); !strings.Contains(first, ".") {
		return !slices.Contains(guardedStd, imp) || slices.Contains(allowed, imp)
	}
	return slices.ContainsFunc(allowed, func(a string) bool { return imp == a || strings.HasPrefix(imp, a+"/") })
}

// TestTheTableIsOneWay keeps mistakes out of the table itself: no package may
// import, however far round, one that may import it.
func TestTheTableIsOneWay(t *testing.T) {
	const walking, done = 1, 2
	state := map[string]int{}
	var walk func(pkg string, way []string)
	walk = func(pkg string, way []string) {
		way = append(way, pkg)
		if state[pkg] == walking {
			t.Errorf("a circle: %s", strings.Join(way, " -> "))
			return
		}
		if state[pkg] == done {
			return
		}
		state[pkg] = walking
		for _, next := range strings.Fields(mayImport[pkg]) {
			if _, own := mayImport[next]; own {
				walk(next, way)
			}
		}
		state[pkg] = done
	}
	for pkg := range mayImport {
		walk(pkg, nil)
	}
}

// folders are the architecture, from the doors to the words that all share. A
// package may import those of its own folder, and of folders further down.
var folders = []string{"cli", "app", "doors", "service", "agents", "call", "tools", "confine", "record", "authority", "base"}

func TestFoldersAreOneWay(t *testing.T) {
	for pkg, line := range mayImport {
		from := folder(pkg)
		if from < 0 {
			continue
		}
		for _, imp := range strings.Fields(line) {
			if _, own := mayImport[imp]; own && folder(imp) < from {
				t.Errorf("%s may import %s: the arrow points up", pkg, imp)
			}
		}
	}
}

// folder is the place of a package's folder in folders, -1 outside of internal.
func folder(pkg string) int {
	top, _, _ := strings.Cut(pkg, "/")
	return slices.Index(folders, top)
}

// maxWiring bounds the Go lines of package app, which wires the services and does no work of
// its own.
const maxWiring = 2000

func TestAppIsWiring(t *testing.T) {
	lines := 0
	for _, s := range sources(t) {
		if s.pkg == "app" {
			lines += s.fset.File(s.file.FileStart).LineCount()
		}
	}
	if lines == 0 || lines >= maxWiring {
		t.Errorf("package app has %d lines; want fewer than %d: move work to a package of internal/service", lines, maxWiring)
	}
}

func TestEveryPackageIsInAFolder(t *testing.T) {
	for pkg := range mayImport {
		if folder(pkg) < 0 && pkg != "." && pkg != "cmd/remit" && pkg != "cmd/remit-hook" && pkg != "remittest" && !within(pkg, "examples") {
			t.Errorf("%s is in none of the folders %s", pkg, strings.Join(folders, ", "))
		}
	}
}

func TestEveryPackageHasAComment(t *testing.T) {
	documented := map[string]bool{}
	for _, s := range sources(t) {
		documented[s.pkg] = documented[s.pkg] || strings.TrimSpace(s.file.Doc.Text()) != ""
	}
	for pkg, ok := range documented {
		if !ok {
			t.Errorf("package %s has no package comment", pkg)
		}
	}
}

// within reports whether pkg is one of the trees.
func within(pkg string, trees ...string) bool {
	return slices.ContainsFunc(trees, func(tree string) bool { return pkg == tree || strings.HasPrefix(pkg, tree+"/") })
}
