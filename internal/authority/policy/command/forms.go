package command

import (
	"slices"
	"strings"
	"sync"
)

// head describes the words of a program before its subcommand, so that patterns of subcommands
// match however the program is called: git -C d push is git push.
type head struct {
	names  string
	global grammar // the options before the subcommand
	// bounded are those of them that change neither which programs are found nor what the
	// subcommand acts on, but for the folder that it works in. An entry of allow for the
	// subcommand also covers a command with these alone.
	bounded string
	folder  string // options of these whose value is the program's working folder
	groups  string // subcommands that have subcommands
	same    string // NAME=NAME: other names of subcommands; words are joined by a colon
	whole   string // all subcommands, where the program completes the beginning of one; "": it does not

	once   sync.Once
	lists  map[string]map[string]bool // bounded, groups and whole, by their text
	others map[string][]renaming      // same, by the first word
}

// renaming is one pair of same, behind its first word.
type renaming struct{ second, to string }

// ready reads the texts once.
func (h *head) ready() *head {
	h.once.Do(func() {
		h.lists = map[string]map[string]bool{"bounded": words(h.bounded), "groups": words(h.groups), "whole": words(h.whole)}
		h.others = map[string][]renaming{}
		for pair := range strings.FieldsSeq(h.same) {
			from, to, _ := strings.Cut(pair, "=")
			first, second, _ := strings.Cut(from, ":")
			h.others[first] = append(h.others[first], renaming{second, to})
		}
	})
	return h
}

// plain reports whether a command has no other form.
func (h *head) plain(args []string) bool {
	switch {
	case len(args) == 0:
		return true
	case strings.HasPrefix(args[0], "-"), h.others[args[0]] != nil:
		return false
	case h.whole != "" && !h.lists["whole"][args[0]]:
		return false
	}
	return !h.lists["groups"][args[0]] || len(args) == 1 || !strings.HasPrefix(args[1], "-")
}

// heads are keyed by base name.
var heads = sync.OnceValue(func() map[string]*head {
	m := map[string]*head{}
	for i := range headList {
		for n := range strings.FieldsSeq(headList[i].names) {
			m[n] = &headList[i]
		}
	}
	return m
})

var headList = []head{
	{names: "git", global: grammar{single: true, known: gitGlobal + " --git-dir= --super-prefix= --config-env= --exec-path="},
		bounded: "C no-pager P p paginate no-optional-locks literal-pathspecs glob-pathspecs noglob-pathspecs icase-pathspecs no-replace-objects no-lazy-fetch no-advice", folder: "C",
		groups: "remote stash worktree submodule notes bisect subtree svn p4 lfs bundle reflog sparse-checkout config",
		same:   "send-pack=push http-push=push subtree:push=push svn:dcommit=push p4:submit=push lfs:push=push remote-https=push remote-http=push stage=add annotate=blame init-db=init"},
	{names: "npm", global: grammar{negate: true, known: npmKnown}, bounded: "prefix C silent s quiet q verbose d loglevel color", folder: "prefix C",
		groups: "run run-script exec config cache team access dist-tag profile token owner org hook pkg audit",
		same: `i=install in=install ins=install inst=install insta=install instal=install isnt=install isnta=install isntal=install isntall=install add=install clean-install=ci ic=ci install-clean=ci isntall-clean=ci t=test tst=test run-script=run rum=run urn=run
			rm=uninstall un=uninstall remove=uninstall r=uninstall unlink=uninstall up=update upgrade=update udpate=update x=exec ln=link la=ls ll=ls list=ls ddp=dedupe find-dupes=dedupe c=config create=init innit=init author=owner home=docs issues=bugs
			login=adduser add-user=adduser rb=rebuild s=search se=search find=search show=view v=view info=view cit=install-ci-test it=install-test sit=install-ci-test why=explain dist-tags=dist-tag ogr=org`,
		whole: `access adduser audit bugs cache ci completion config dedupe deprecate diff dist-tag docs doctor edit exec explain explore find-dupes fund get help help-search init install install-ci-test install-test link ll login logout ls org outdated owner
			pack ping pkg prefix profile prune publish query rebuild repo restart root run run-script sbom search set shrinkwrap star stars start stop team test token undeprecate uninstall unpublish unstar update version view whoami`},
	{names: "pnpm", global: grammar{negate: true, known: "-Crwg -CF= --dir= --filter= --recursive --workspace-root --silent --reporter= --loglevel= --color --stream --use-stderr --config= --global --registry="}, bounded: "C dir silent s reporter loglevel", folder: "C dir",
		groups: "run exec store", same: "i=install add=add rm=remove uninstall=remove un=remove up=update upgrade=update t=test tst=test"},
	{names: "yarn", global: grammar{negate: true, known: "-s --cwd= --silent --verbose --json --offline --non-interactive --use-yarnrc= --cache-folder= --registry= --mutex= --modules-folder="}, bounded: "cwd silent s json", folder: "cwd", groups: "npm workspace workspaces config", same: "npm:publish=publish"},
	{names: "docker podman nerdctl", global: grammar{known: "-D -Hlc= --config= --context= --debug --host= --log-level= --tls --tlscacert= --tlscert= --tlskey= --tlsverify --connection= --url= --identity= --remote --root= --runroot= --runtime= --storage-driver= --storage-opt= --cgroup-manager= --namespace= --address= --help --version"},
		bounded: "D debug l log-level", groups: "container image volume network compose system builder buildx context config secret service stack swarm node plugin manifest trust pod machine",
		same: "container:rm=rm container:remove=rm container:run=run container:exec=exec container:kill=kill container:stop=stop container:start=start container:create=create container:cp=cp container:commit=commit container:ls=ps container:ps=ps container:logs=logs image:rm=rmi image:push=push image:pull=pull image:build=build image:ls=images image:load=load image:save=save image:import=import image:tag=tag builder:build=build buildx:build=build system:info=info"},
	{names: "kubectl oc", global: grammar{known: kubectlKnown}, bounded: "v", groups: "config rollout set auth certificate create apply cluster-info top plugin", same: ""},
	{names: "helm", global: grammar{known: "-n= --burst-limit= --debug --kube-apiserver= --kube-as-group= --kube-as-user= --kube-ca-file= --kube-context= --kube-insecure-skip-tls-verify --kube-tls-server-name= --kube-token= --kubeconfig= --namespace= --qps= --registry-config= --repository-cache= --repository-config= --help"},
		bounded: "debug", groups: "repo dependency plugin registry get show search", same: "del=uninstall delete=uninstall un=uninstall dep=dependency fetch=pull inspect=show ls=list"},
	{names: "terraform tofu terragrunt", global: grammar{single: true, known: "-chdir= -version -help --version --help"}, bounded: "chdir", folder: "chdir", groups: "state workspace providers metadata", same: "apply:-destroy=destroy apply:--destroy=destroy run-all:destroy=destroy"},
	{names: "go", global: grammar{single: true, known: "-C= --C="}, bounded: "C", folder: "C", groups: "mod work tool"},
	{names: "cargo", global: grammar{known: "-vqhVL -CZ= -C= --verbose --quiet --color= --config= --frozen --locked --offline --list --explain= --version --help"}, bounded: "C v verbose q quiet color frozen locked offline", folder: "C",
		same: "b=build c=check d=doc r=run t=test rm=remove"},
	{names: "make gmake", global: grammar{}},
	{names: "gh glab", global: grammar{known: "-R= --repo= --help --version"}, groups: "pr issue repo release run workflow secret variable gist auth api ssh-key gpg-key label cache codespace extension alias config project ruleset org mr"},
	{names: "systemctl", global: grammar{known: "-atlqfrHMnopsP -HMnopst= --user --system --global --host= --machine= --type= --state= --property= --all --full --no-pager --no-legend --quiet --force --now --runtime --no-block --no-ask-password --root= --lines= --output= --plain --wait --signal= --kill-whom= --what= --job-mode= --recursive --help --version"},
		bounded: "no-pager no-legend quiet q plain full l"},
	{names: "aws", global: grammar{known: "--debug --endpoint-url= --no-verify-ssl --no-paginate --output= --query= --profile= --region= --version --color= --no-sign-request --ca-bundle= --cli-read-timeout= --cli-connect-timeout= --cli-binary-format= --no-cli-pager --cli-auto-prompt --no-cli-auto-prompt"},
		bounded: "no-cli-pager no-paginate output query color", groups: "s3 s3api ec2 iam sts lambda rds ecs ecr eks cloudformation dynamodb sqs sns logs route53 secretsmanager ssm kms configure"},
	{names: "gcloud", global: grammar{negate: true, known: "-qh --account= --project= --configuration= --format= --filter= --flatten= --billing-project= --impersonate-service-account= --log-http --quiet --user-output-enabled --verbosity= --access-token-file= --trace-token= --flags-file= --help --version"}, bounded: "quiet q format verbosity user-output-enabled",
		groups: "alpha beta compute projects iam container run functions storage sql app auth config builds secrets services pubsub logging kms dns instances clusters networks disks images addresses firewall-rules"},
	{names: "pip pip3 uv", global: grammar{known: "-vqh --isolated --require-virtualenv --python= --verbose --version --quiet --log= --no-input --keyring-provider= --proxy= --retries= --timeout= --exists-action= --trusted-host= --cert= --client-cert= --cache-dir= --no-cache-dir --disable-pip-version-check --no-color --no-python-version-warning --use-feature= --use-deprecated= --debug --directory= --project= --offline --no-progress --color= --native-tls --no-cache --help"},
		bounded: "v verbose q quiet no-input disable-pip-version-check no-color no-cache-dir", groups: "pip tool cache config python self"},
	{names: "apt apt-get", global: grammar{known: "-qysdfmuhbo -tcoa= -q=? --yes --assume-yes --quiet=? --no-install-recommends --simulate --dry-run --fix-broken --download-only --purge --reinstall --option= --config-file= --target-release= --allow-downgrades --allow-unauthenticated --help --version"}, bounded: "q quiet y yes assume-yes"},
	{names: "hg", global: grammar{known: hgKnown + " --cwd= --config= --repository="}, bounded: "R cwd q quiet v verbose y noninteractive", folder: "R cwd", same: "pu=push pus=push"},
	{names: "svn", global: grammar{known: ""}, same: "ci=commit co=checkout del=delete remove=delete rm=delete mv=move ren=move rename=move up=update cp=copy sw=switch"},
}

const (
	npmKnown = `-sdqgfClnByamDEOPSpSwhvi -Cw= --prefix= --silent --quiet --verbose --loglevel= --color=? --global --json --long --parseable --yes --force --registry= --userconfig= --globalconfig= --cache= --tag= --access= --otp= --dry-run --workspace= --workspaces --include-workspace-root
		--if-present --ignore-scripts --offline --prefer-offline --prefer-online --omit= --include= --production --only= --save --save-dev --save-exact --save-optional --save-peer --save-prod --save-bundle --audit --audit-level= --fund --progress --legacy-peer-deps --strict-peer-deps --package-lock
		--package-lock-only --engine-strict --depth= --location= --script-shell= --scope= --cafile= --ca= --cert= --key= --https-proxy= --proxy= --noproxy= --fetch-retries= --fetch-timeout= --maxsockets= --unicode --usage --timing --call= --package= --shell= --editor= --node-options= --git= --init-module= --foreground-scripts
		--install-links --install-strategy= --provenance --heading= --before= --strict-ssl --update-notifier --bin-links --tag-version-prefix= --git-tag-version --commit-hooks --sign-git-tag --sign-git-commit --message= --allow-same-version --preid= --version --help`

	kubectlKnown = `-nsv= -h --namespace= --context= --cluster= --user= --kubeconfig= --server= --token= --as= --as-group= --as-uid= --username= --password= --cache-dir= --certificate-authority= --client-certificate= --client-key= --disable-compression --insecure-skip-tls-verify --match-server-version --request-timeout= --tls-server-name=
		--log-flush-frequency= --profile= --profile-output= --v= --vmodule= --warnings-as-errors --kuberc= --help --version`
)

// forms gives other words that a command means, without the options before its subcommand and
// under the names that patterns have. args are the words behind the program. Without loose there
// is only the form of a command whose options are all bounded.
func (h *head) forms(args []string, loose bool) (out [][]string) {
	if h.ready().plain(args) {
		return nil
	}
	if !loose {
		return h.bare(args)
	}
	out = h.behind(args)
	for _, words := range append([][]string{args}, out...) {
		if !strings.HasPrefix(words[0], "-") {
			out = append(out, h.renamed(words)...)
		}
	}
	return out
}

// bare gives the words behind options that are all bounded.
func (h *head) bare(args []string) [][]string {
	r := (&grammar{known: h.global.known, single: h.global.single, negate: h.global.negate, lead: true}).read(args)
	if r.problem != "" || len(r.given) == 0 || len(r.rest) == 0 || slices.ContainsFunc(r.given, func(g given) bool { return !h.lists["bounded"][g.option] }) {
		return nil
	}
	return [][]string{r.rest}
}

// maxBehind bounds the words before a subcommand.
const maxBehind = 64

// behind gives the words behind the options that args begin with. An option that is not known
// as it is written may have a value or not, and is taken off in both ways.
func (h *head) behind(args []string) (out [][]string) {
	var at [maxBehind + 2]bool
	at[0] = true
	for i := 0; i < len(args) && i < maxBehind; i++ {
		w := args[i]
		if !at[i] {
			continue
		}
		if !strings.HasPrefix(w, "-") {
			if i > 0 {
				out = append(out, args[i:])
			}
			continue
		}
		alone, valuedToo := h.reads(w)
		at[i+1], at[i+2] = at[i+1] || alone, at[i+2] || valuedToo
	}
	return out
}

// reads reports whether an option can stand alone, and whether the word behind it can be its
// value.
func (h *head) reads(w string) (alone, value bool) {
	switch kind := h.global.options().kinds[w]; {
	case kind == valued:
		return false, true
	case w == "--", kind == flagOnly, kind == attached, strings.Contains(w, "="):
		return true, false
	}
	return true, true
}

// renamed gives a command under the names that its subcommand also has, with the options
// between a group and its subcommand taken off.
func (h *head) renamed(words []string) (out [][]string) {
	if h.lists["groups"][words[0]] && len(words) > 1 && strings.HasPrefix(words[1], "-") {
		for i := 1; i < len(words) && i < maxBehind; i++ {
			if !strings.HasPrefix(words[i], "-") {
				out = append(out, append([]string{words[0]}, words[i:]...))
			}
		}
	}
	for _, w := range append([][]string{words}, out...) {
		out = append(out, h.also(w)...)
	}
	return out
}

// target reports whether other subcommands are also called by this name.
func (h *head) target(name string) bool {
	for _, list := range h.others {
		if slices.ContainsFunc(list, func(o renaming) bool { return o.to == name }) {
			return true
		}
	}
	return false
}

// also gives a command with the subcommand's other names.
func (h *head) also(words []string) (out [][]string) {
	for _, o := range h.others[words[0]] {
		switch {
		case o.second == "":
			out = append(out, append([]string{o.to}, words[1:]...))
		case o.second[0] == '-':
			if i := slices.IndexFunc(words[1:], func(w string) bool { return w == o.second || isSwitchedOn(w, o.second) }); i >= 0 {
				out = append(out, slices.Concat([]string{o.to}, words[1:i+1], words[i+2:]))
			}
		case len(words) > 1 && words[1] == o.second:
			out = append(out, append([]string{o.to}, words[2:]...))
		}
	}
	if h.whole == "" || h.lists["whole"][words[0]] || nonLiteral(words[0]) {
		return out
	}
	for name := range h.lists["whole"] {
		if strings.HasPrefix(name, words[0]) {
			out = append(out, append([]string{name}, words[1:]...))
		}
	}
	return out
}

// isSwitchedOn reports whether a word is an option with a value that is not false.
func isSwitchedOn(word, option string) bool {
	value, ok := strings.CutPrefix(word, option+"=")
	return ok && !slices.Contains([]string{"false", "f", "0"}, strings.ToLower(value))
}

// Folders gives the further folders that a command works in by its own options, as git -C does.
// ok is false if one is not certain.
func Folders(argv []string, dir string) (out []string, ok bool) {
	if len(argv) == 0 {
		return nil, true
	}
	h := heads()[base(argv[0])]
	if h == nil || h.folder == "" {
		return nil, true
	}
	r := (&grammar{known: h.global.known, single: h.global.single, negate: h.global.negate, lead: true}).read(argv[1:])
	for _, g := range r.given {
		if named(g.option, h.folder) {
			if dir = join(dir, g.text); dir == "" {
				return nil, false
			}
			out = append(out, dir)
		}
	}
	return out, true
}
