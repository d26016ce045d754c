# Runs on a copy of a system, with the packages old.rpm and new.rpm. Debian keeps the list
# of what rpm installed in the home.
set -eu
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
cd /tmp
fail() { echo "FAILED: $*"; exit 1; }
marks() { (cd /tmp/upper && find . \( -type f -o -type c -o -type l \) ! -path './var/lib/rpm/*' ! -path './root/.rpmdb/*' ! -path './run/*' | sort); }

mkdir -p /etc/apparmor.d/abi
touch /etc/apparmor.d/abi/4.0
rpm -q remit >/dev/null 2>&1 && fail "it is there already"
marks >before
# Debian's rpm knows no installed package, so nothing that a package needs.
rpm -i --nodeps --noplugins old.rpm
[ "$(remit)" = old ] || fail "installing"
rpm -U --nodeps --noplugins new.rpm
remit version
cmp /etc/apparmor.d/remit /usr/share/remit/apparmor || fail "the upgrade removed the profile"
rpm -V --nodeps remit || fail "files differ from the package"
rpm -e --noplugins remit
marks >after
diff before after || fail "removing left traces"
echo "== done"
