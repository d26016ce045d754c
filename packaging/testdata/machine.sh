#!/bin/sh
# machine.sh SYSTEM DIR SCRIPT FILE... runs a script as root on a copy of a system, which is
# the folder of its root: what it changes is written below DIR/upper, and nothing of it
# reaches the system itself. It is called in a mount namespace of its own.
set -eu
system=$1 dir=$2
shift 2
mount -t tmpfs -o mode=755 none "$dir"
mkdir "$dir/upper" "$dir/work" "$dir/root"
mount -t overlay overlay -o "lowerdir=$system,upperdir=$dir/upper,workdir=$dir/work" "$dir/root"
mkdir -p "$dir/root/.machine"
mount --rbind /proc "$dir/root/proc"
mount --rbind /sys "$dir/root/sys"
mount --rbind /dev "$dir/root/dev"
mount -t tmpfs -o mode=1777 none "$dir/root/tmp"
cp "$@" "$dir/root/tmp/"
cd "$dir/root"
pivot_root . .machine
script=/tmp/$(basename "$1")
mkdir -m 755 /tmp/upper
mount --bind "/.machine$dir/upper" /tmp/upper
umount -l /.machine
cd /tmp
exec sh "$script"
