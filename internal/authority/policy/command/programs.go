package command

import (
	"strings"
	"sync"
)

// program describes the words of a known program: its options, the files that it touches, and
// the program that it starts. The effect of an unlisted option is unknown. A program without an entry is judged by its own name alone, and the sandbox bounds
// its effects.
type program struct {
	names string // separated by spaces
	grammar
	files fileWords

	// run says how to find the started command.
	run      way
	operands int  // words between the options and the command
	assigns  bool // NAME=VALUE words may precede the command

	// never is the reason why the started command can never be determined.
	never string
}

// way is how a program's words name the started command.
type way uint8

const (
	byNothing way = iota // no listed option starts a command
	byInner              // the words behind the options are the command
	byEnv
	byFlock
	byWatch
	byXargs
	byFind
	byShell
	byGdb
	byGit
	bySed
	byJq
	byLess
	byAwk
	byTmux
	bySu
	byScript
	byRsync
	byHg
	byTar
	byGo
	byCompiler
	byRustc
	byIP
	byOpenSSL
)

const (
	otherRoot = "it starts commands under another root, identity or namespace"
	later     = "it starts commands later, outside of this call"
	readsCmds = "it takes the commands to start from input, files or a format of its own"
)

// programs are keyed by base name, and made when a command is first looked at.
var programs = sync.OnceValue(func() map[string]*program {
	m := map[string]*program{}
	for _, list := range [][]program{startList, textList, fileList, networkList, buildList, otherList} {
		for i := range list {
			for n := range strings.FieldsSeq(list[i].names) {
				m[n] = &list[i]
			}
		}
	}
	return m
})

// startList are the programs whose purpose is to start another one. The options are those of
// GNU coreutils, findutils, util-linux and procps.
var startList = []program{
	{names: "env", grammar: grammar{lead: true, known: "-i0v -uC= --ignore-environment --null --debug --unset= --chdir= --block-signal=? --default-signal=? --ignore-signal=? --list-signal-handling --help --version"},
		run: byEnv, assigns: true},
	{names: "nice", grammar: grammar{lead: true, digits: true, known: "-n= --adjustment= --help --version"}, run: byInner},
	{names: "ionice", grammar: grammar{lead: true, known: "-t -cnpPu= --class= --classdata= --pid= --pgid= --uid= --ignore --help --version"}, run: byInner},
	{names: "nohup", grammar: grammar{lead: true, known: "--help --version"}, run: byInner},
	{names: "setsid", grammar: grammar{lead: true, known: "-cfwhV --ctty --fork --wait --help --version"}, run: byInner},
	{names: "timeout", grammar: grammar{lead: true, known: "-pfv -ks= --preserve-status --foreground --verbose --kill-after= --signal= --help --version"}, run: byInner, operands: 1},
	{names: "time", grammar: grammar{lead: true, known: "-pvq -f= --portability --verbose --quiet --format= --help --version"}, run: byInner},
	{names: "stdbuf", grammar: grammar{lead: true, known: "-ioe= --input= --output= --error= --help --version"}, run: byInner},
	{names: "chrt", grammar: grammar{lead: true, known: "-abfiorRvm -TPD= --batch --fifo --idle --other --rr --all-tasks --verbose --max --deadline --reset-on-fork --sched-runtime= --sched-period= --sched-deadline= --help --version"}, run: byInner, operands: 1},
	{names: "taskset", grammar: grammar{lead: true, known: "-ac --all-tasks --cpu-list --help --version"}, run: byInner, operands: 1},
	{names: "unshare", grammar: grammar{lead: true, known: "-imnpuUCTfrc --mount --uts --ipc --net --pid --user --cgroup --time --fork --map-root-user --map-current-user --help --version"}, run: byInner},
	{names: "strace", grammar: grammar{lead: true, known: "-cCdfFhiknqrtTvVwxyYzZ -aesXOSUPpIb= --follow-forks --trace= --string-limit= --summary --summary-only --no-abbrev --relative-timestamps --absolute-timestamps --syscall-times --decode-fds --quiet --trace-path="}, run: byInner},
	{names: "ltrace", grammar: grammar{lead: true, known: "-cCfhirStTVL -adensuxXw= --demangle --indent= --help --version --no-signals --where="}, run: byInner},
	{names: "sudo doas", grammar: grammar{lead: true, known: "-bEHnPSA -ugp="}, run: byInner, assigns: true},
	{names: "command busybox toybox", grammar: grammar{lead: true}, run: byInner},
	{names: "flock", grammar: grammar{lead: true, known: "-sxeunoFv -wE= --shared --exclusive --unlock --nonblock --nb --wait= --timeout= --conflict-exit-code= --close --no-fork --verbose --help --version"},
		run: byFlock, operands: 1},
	{names: "watch", grammar: grammar{lead: true, known: "-bcegtwpCrxhv -nq= -d=? --exec --interval= --differences=? --errexit --chgexit --equexit= --no-title --no-wrap --color --beep --precise --help --version"}, run: byWatch},
	{names: "xargs", grammar: grammar{lead: true, known: `-0rtxop -adEILnPs= -eil=? --null --no-run-if-empty --verbose --exit --interactive --open-tty --arg-file= --delimiter= --max-args=
		--max-procs= --max-chars= --max-lines=? --replace=? --eof=? --show-limits --help --version`}, files: fileWords{read: "a arg-file"}, run: byXargs},
	{names: "find", grammar: grammar{single: true, known: findKnown}, run: byFind},
	{names: "sh bash dash ash ksh mksh rbash", grammar: grammar{lead: true, known: "-celufnvxi -oO= --posix --norc --noprofile --login --init-file= --rcfile="},
		files: fileWords{read: "init-file rcfile", first: reads, rest: ignored, unless: "c s"}, run: byShell},
	{names: "git", run: byGit},
	{names: "gdb", grammar: grammar{single: true, lead: true, known: "-args --args -batch --batch -q -quiet --quiet -silent --silent -nx --nx -n -nh --nh -version --version -v -help --help -h -nw --nw -ex= --ex= -eval-command= --eval-command="},
		run: byGdb},
	{names: "tmux", run: byTmux},
	{names: "su", run: bySu},
	{names: "script", grammar: grammar{known: "-aefqhV -c= --command= --append --flush --quiet --return --help --version"}, run: byScript},
	{names: "hg", grammar: grammar{known: hgKnown}, run: byHg},

	{names: `runuser sudoedit pkexec chroot nsenter setpriv capsh newgrp sg bwrap firejail setarch linux32 linux64
		i386 x86_64 uname26 proot fakechroot gosu su-exec setuidgid chpst cgexec ksu arch-nspawn systemd-nspawn machinectl`, never: otherRoot},
	{names: "at batch crontab systemd-run start-stop-daemon xdg-open sensible-browser gio daemonize daemon", never: later},
	{names: `parallel run-parts entr zsh fish csh tcsh screen expect unbuffer xvfb-run fakeroot prlimit numactl ld.so
		chronic ifne pee rlwrap eatmydata faketime torsocks proxychains proxychains4 ssh-agent dbus-run-session dbus-launch
		systemd-inhibit choom uclampset coresched openvt valgrind catchsegv perf tini dumb-init envdir softlimit
		aa-exec cpulimit logsave multitime pexec grc genie torify runscript sshpass gtester hyperfine setlock tmate byobu service
		rlogin rsh xdotool cdist distcc ccache sccache msgfilter m4 dc sftp ftp lftp ncftp psftp tftp smbclient telnet socat openvpn
		mail mailx mutt run-mailcap see logrotate debugfs crash scanmem tdbtool ginsh agetty bconsole minicom acr asterisk bashbug bee
		check_by_ssh check_ssl_cert dnsmasq easyrsa fail2ban-client fastfetch forge jtag mosh-server needrestart plymouth procmail rsyslogd
		sqlmap sshuttle wg-quick xdg-user-dir csvtool gpg-agent gpgtar memusage msgexec dpkg-architecture fakeroot-sysv fakeroot-tcp sotruss
		pg_virtualenv prove rpmspec rpmkeys rpmbuild opt not systemd-cat runcon rpcgen`, never: readsCmds},
}

// scan reads the words of a program that starts the command behind them. why is not empty if
// they cannot be read.
func (p *program) scan(args []string, assign func(name, value string) string) (r *parsed, rest []string, why string) {
	r = p.read(args)
	if r.problem != "" {
		return nil, nil, r.problem
	}
	if p.assigns && len(r.rest) > 0 && r.rest[0] == "-" {
		r.add("-i", "") // env's other spelling
		r.rest = r.rest[1:]
	}
	for p.assigns && len(r.rest) > 0 && !isMany(r.rest[0]) {
		name, value, ok := strings.Cut(begins(r.rest[0]), "=")
		if !ok {
			break
		}
		if nonLiteral(r.rest[0]) {
			value = NonLiteral
		}
		if why := assign(name, value); why != "" {
			return nil, nil, why
		}
		r.rest = r.rest[1:]
	}
	rest = r.rest
	for range p.operands {
		if len(rest) == 0 {
			return r, nil, ""
		}
		if isMany(rest[0]) {
			return nil, nil, "it is not literal how many words come before the command"
		}
		if mayBeOption(rest[0]) && nonLiteral(rest[0]) {
			return nil, nil, "a word before the command is not literal"
		}
		rest = rest[1:]
	}
	return r, rest, ""
}
