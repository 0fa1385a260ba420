# Makes a machine of its own out of this one and becomes its systemd. Run by namespace.py, in new namespaces of all kinds.
# Everything that is written goes to memory, above the files of this machine. What the kernel has only once (/proc/sys,
# /sys, the clock) cannot be written at all.
set -eu
memory=$1 checkout=$2 units=$3

mount --make-rprivate /
mount -t tmpfs tmpfs "$memory"
cd "$memory"
mkdir upper work root
mount -t overlay overlay -o lowerdir=/,upperdir=upper,workdir=work root
cd root

mount -t proc proc proc
mount --bind -o ro proc/sys proc/sys
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs dev
for each in full null random tty urandom zero; do
    touch "dev/$each"
    mount --bind "/dev/$each" "dev/$each"
done
ln -s pts/ptmx dev/ptmx

# The checkout may be on another file system, which the layer above does not show.
mkdir -p ".$checkout"
mount --bind -o ro "$checkout" ".$checkout"

# Of the units of this machine only those that ours needs, so that nothing else is started.
mount -t tmpfs -o mode=755 tmpfs etc/systemd/system
mkdir opt/units
for each in $units; do
    ln -s "/lib/systemd/system/$each" opt/units
done

mkdir .before
pivot_root . .before
umount -l .before
rmdir .before
# As systemd wants it: what it mounts for a service, credentials for one, must show in places that were made before.
mount --make-rshared /
exec env -i container=turngate PATH=/usr/sbin:/usr/bin:/sbin:/bin SYSTEMD_UNIT_PATH=/etc/systemd/system:/opt/units \
    setpriv --bounding-set -sys_module,-sys_rawio,-sys_time \
    /lib/systemd/systemd --system systemd.unit=multi-user.target
