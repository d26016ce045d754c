# Runs on a copy of a system, with the packages old.deb and new.deb, the demo and its server.
set -eu
export DEBIAN_FRONTEND=noninteractive PATH=/usr/sbin:/usr/bin:/sbin:/bin
cd /tmp
ann() { (cd /home/ann && env -i HOME=/home/ann PATH=/usr/bin:/bin TMPDIR=/home/ann/tmp setpriv --reuid 4321 --regid 4321 --clear-groups "$@"); }
fail() { echo "FAILED: $*"; exit 1; }
marks() { (cd /tmp/upper && find . \( -type f -o -type c -o -type l \) ! -path './var/lib/dpkg/*' ! -path './var/log/*' ! -path './var/cache/man/*' ! -path './home/ann/*' ! -path './run/*' | sort); }

mkdir -p /home/ann/tmp /home/ann/work
tar -xf demo.tar -C /home/ann/work
mkdir -p /home/ann/work/bin
mv demo-server /home/ann/work/bin/
ln -s /usr/bin/remit /usr/bin/remit-hook /home/ann/work/bin/
chown -R 4321:4321 /home/ann
rm -f /var/lib/man-db/auto-update # which indexes all pages of the machine anew
marks >before

echo "== install the old version, then the new one"
dpkg -i old.deb >log 2>&1 || { cat log; fail "installing"; }
[ ! -e /etc/apparmor.d/remit ] || fail "a profile without AppArmor's abi 4.0"
ann mkdir -p .local/share/remit
echo kept >/home/ann/.local/share/remit/settings.test
mkdir -p /etc/apparmor.d/abi
touch /etc/apparmor.d/abi/4.0
dpkg -i new.deb >log 2>&1 || { cat log; fail "upgrading"; }
[ "$(cat /home/ann/.local/share/remit/settings.test)" = kept ] || fail "the upgrade changed a home"
cmp /etc/apparmor.d/remit /usr/share/remit/apparmor || fail "no profile with AppArmor's abi 4.0"
dpkg --verify remit || fail "files differ from the package"
dpkg -s remit | grep -qx 'Status: install ok installed' || fail "the status"
rm /home/ann/.local/share/remit/settings.test

echo "== maintainer scripts run again"
sh /var/lib/dpkg/info/remit.postinst configure || fail "postinst"
sh /var/lib/dpkg/info/remit.prerm upgrade 1 || fail "prerm upgrade"
[ -e /etc/apparmor.d/remit ] || fail "an upgrade removed the profile"

echo "== what is installed works"
ann remit version
ann bash -c '. /usr/share/bash-completion/completions/remit && complete -p remit' || fail "the completion"
if command -v man >/dev/null; then
	MANWIDTH=80 ann man remit-policy-check >page 2>/dev/null && grep -q remit-policy-check page || fail "the manual"
fi
if command -v systemd-analyze >/dev/null; then
	systemd-analyze verify /usr/lib/systemd/system/remit.service || fail "the system unit"
	mkdir -p /run/user/0
	XDG_RUNTIME_DIR=/run/user/0 systemd-analyze verify --user /usr/lib/systemd/user/remit.service || fail "the user's unit"
fi

echo "== the demo, as an ordinary user"
ann sh work/examples/demo/run.sh >demo.log 2>&1 || { cat demo.log; fail "the demo"; }
grep -q 'the ledger was not altered' demo.log || { cat demo.log; fail "the demo's record"; }
[ "$(grep -c '^error: E1001' demo.log)" = 2 ] || { cat demo.log; fail "the demo's attacks"; }

echo "== purge"
dpkg --purge remit >log 2>&1 || { cat log; fail "purging"; }
! dpkg -s remit >/dev/null 2>&1 || fail "it is still known"
ls -d /home/ann/tmp/remit-demo-*/home >/dev/null || fail "a home was deleted"
rm /etc/apparmor.d/abi/4.0
rmdir --ignore-fail-on-non-empty -p /etc/apparmor.d/abi
marks >after
diff before after || fail "purging left traces"
[ -z "$(find /var/lib/dpkg/info -name 'remit*')" ] || fail "dpkg keeps files"
echo "== done"
