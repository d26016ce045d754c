package command_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/authority/policy/command"
)

// gtfobins are the programs to which gtfobins.github.io gives the function "shell" or
// "command", or those of a program that they start ("inherit"), as of its commit
// acd524623f9c; and those that had one before.
const gtfobins = `aa-exec agetty ansible-playbook ansible-test aoss apport-cli apt apt-get aptitude aria2c ash at autoconf autoreconf awk aws
	bash batcat bconsole bpftrace bun bundle bundler busctl busybox byebug c89 c99 cargo cdist certbot choom cmake cobc composer cowsay cowthink cpan
	cpio cpulimit crash crontab csh csvtool dash dc debugfs dhclient distcc dmesg dmsetup dnf docker dotnet dpkg dstat dvips easy_install ed elvish
	emacs enscript env ex expect facter find fish flock ftp gawk gcc gcloud gdb gem genie ghc ghci gimp ginsh git go grc gtester hping3 iftop
	ionice ip irb ispell java jjs joe journalctl jrunscript julia knife ksh kubectl latex latexmk ld.so less lftp logrotate logsave ltrace lua
	lualatex luatex m4 mail make man mawk minicom more mosh msfconsole msgfilter multitime mutt mysql nano nawk nc ncftp neofetch nice nmap node
	nohup npm nroff nsenter octave openvpn openvt pandoc parallel pdb pdflatex pdftex perl perlbug pexec pg php pic pico pidstat pip posh pry psftp
	psql puppet pwsh python R rake rc restic rlogin rlwrap rpm rpmquery rsync rtorrent ruby run-mailcap run-parts runscript rview rvim sash scanmem
	scp screen script sed service setarch setlock sftp sg slsh smbclient socat softlimit split sqlite3 ssh ssh-agent ssh-keygen sshpass
	start-stop-daemon stdbuf strace su sudo systemctl systemd-run tar task tasksh taskset tclsh tcpdump tdbtool telnet tex time timedatectl timeout
	tmate tmux top torify torsocks tshark unshare uv vagrant valgrind varnishncsa vi view vim vimdiff volatility watch wget wish xargs xdg-open xdotool
	xelatex xetex yarn yash yum zathura zip zsh zypper
	acr arch-nspawn asterisk autoheader bashbug bee cabal capsh check_by_ssh check_ssl_cert chroot clisp codex ctr dnsmasq doas easyrsa eb exiftool
	fail2ban-client fastfetch firejail forge fzf gnuplot guile hg jshell jtag ksu loginctl lxd mosh-server ncdu needrestart opencode opkg perf pipx pkg
	plymouth podman poetry procmail ranger rpmdb rpmverify rsyslogd rustc rustup scrot snap sqlmap sshfs sshuttle sysctl systemd-resolve vigr vipw virsh
	wg-quick wireshark xdg-user-dir yt-dlp zic zless borg`

// Each of them is judged by what it starts, refused where it would start
// something, or named in the documents as what it is: an interpreter.
func TestProgramsOfGTFOBins(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/policy.md")
	if err != nil {
		t.Fatal(err)
	}
	interpreters := map[string]bool{}
	for _, row := range regexp.MustCompile(`(?m)^\| (?:languages|editors|tools that build|package managers|tools that run elsewhere|pagers and consoles) \| (.*) \|$`).FindAllStringSubmatch(string(page), -1) {
		for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[1], -1) {
			interpreters[name[1]] = true
		}
	}
	for _, name := range strings.Fields(gtfobins) {
		if known := command.Known(name); known == interpreters[name] {
			t.Errorf("%s: what it starts is looked at: %v; it is listed as an interpreter: %v; want one of them", name, known, interpreters[name])
		}
	}
}
