#!/usr/bin/env bash
# Boots a real systemd as PID 1 of namespaces of its own, on a root of its own. Needs root. Ends with its standard input.
# Nothing that runs in the machine can change the host: what it sees of the host is read-only, or the lower layer of an
# overlay whose upper layer is memory.
#   boot.sh ROOT units BIN UNITS    the programs in BIN and the units in UNITS, installed by hand on a minimal system
#   boot.sh ROOT fresh BASE         a Debian system without stockade: /etc, /usr and dpkg's database of BASE, which is a
#                                   folder that debootstrap made, or /, the host
# ROOT is an empty folder to mount on.
set -euo pipefail

outside() {
  local groups=$1.cgroup
  # A branch of its own: systemd takes the root of what it sees. Not local: the trap has to know it, too.
  mkdir "$groups"
  mount -t cgroup2 cgroup2 "$groups"
  own=$groups/stockade-test-$$
  mkdir "$own"
  trap clean_up EXIT
  trap 'exit 130' INT TERM
  # The shell that moves becomes the machine; this one stays outside to clean up.
  bash -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$own" \
    unshare --mount --uts --ipc --net --pid --cgroup --fork --kill-child "$0" --inside "$@" </dev/null &
  # Until it is closed.
  read -r _ || true
}

clean_up() {
  kill -KILL $! 2>/dev/null || true
  wait || true
  # The kernel ends the last processes of the machine after its first.
  for _ in {1..500}; do
    [[ -z $(find "$own" -name cgroup.procs -exec cat {} +) ]] && break
    sleep 0.01
  done
  find "$own" -depth -type d -exec rmdir {} \;
}

inside() {
  local root=$1 kind=$2 name
  shift 2
  mount -t tmpfs -o mode=755 root "$root"
  cd "$root"
  mkdir -p usr etc proc sys dev run tmp root home srv/project var/log var/tmp old
  chmod 1777 tmp var/tmp
  ln -s ../run var/run
  for name in bin sbin lib lib64; do
    if [[ -L /$name ]]; then ln -s "usr/$name" "$name"; fi
  done
  "from_$kind" "$@"
  configure
  kernel_file_systems
  pivot_root . old
  umount --lazy old
  exec env --ignore-environment container=stockade PATH=/usr/local/bin:/usr/bin:/bin \
    /lib/systemd/systemd --system --unit=machine.target --show-status=no </dev/null
}

kernel_file_systems() {
  local name
  mount -t proc proc proc
  # systemd would set limits of the whole machine.
  mount --bind proc/sys proc/sys
  mount -o remount,bind,ro proc/sys
  mount -t sysfs -o ro sysfs sys
  mount -t cgroup2 cgroup2 sys/fs/cgroup
  mount -t tmpfs -o mode=755 run run
  mount -t tmpfs -o mode=755 dev dev
  for name in null zero full random urandom tty; do
    touch "dev/$name"
    mount --bind "/dev/$name" "dev/$name"
  done
  mkdir dev/pts dev/shm dev/mqueue dev/hugepages
  mount -t devpts -o newinstance devpts dev/pts
  ln -s pts/ptmx dev/ptmx
}

from_units() {
  local bin=$1 units=$2 name
  mount --bind /usr usr
  mount -t tmpfs -o mode=755 local usr/local
  mount -o remount,bind,ro usr
  mkdir usr/local/bin
  for name in stockaded stockade-worker stockade; do
    touch "usr/local/bin/$name"
    mount --bind "$bin/$name" "usr/local/bin/$name"
  done
  mkdir -p etc/stockade etc/systemd/system etc/systemd/user
  cp "$units"/stockade.* etc/systemd/system/
  cp "$units"/user/stockade.* etc/systemd/user/
  cp /etc/ld.so.cache etc/
  printf '%s\n' root:x:0:0::/root:/bin/sh nobody:x:65534:65534::/:/bin/sh \
    stockade:x:990:990::/:/bin/sh ada:x:1000:1000::/home/ada:/bin/sh >etc/passwd
  printf '%s\n' root:x:0: nogroup:x:65534: stockade:x:990: ada:x:1000: >etc/group
  chown 990:990 srv/project
  mkdir -p home/ada/.config/stockade home/ada/project
  chown -R 1000:1000 home/ada
}

from_fresh() {
  local base=${1%/} name
  mkdir -p var/lib/dpkg var/cache/man
  mount -t tmpfs -o mode=755 layers old
  for name in etc usr var/lib/dpkg; do
    mkdir -p "old/$name/upper" "old/$name/work"
    mount -t overlay -o "lowerdir=$base/$name,upperdir=$PWD/old/$name/upper,workdir=$PWD/old/$name/work" overlay "$name"
  done
  umount --lazy old
  # What an operator installed by hand is not part of a fresh system.
  mount -t tmpfs -o mode=755 local usr/local
  rm -rf etc/systemd/system/*.{wants,requires}
}

configure() {
  local unit
  mkdir -p etc/systemd/system
  # Not one of the system's units is wanted, least of all those that clean up or look for devices; only the journal is.
  for unit in usr/lib/systemd/system/*.wants/*; do
    case $unit in
      */systemd-journald*) ;;
      *) ln -sf /dev/null "etc/systemd/system/${unit##*/}" ;;
    esac
  done
  printf '[Unit]\nRequires=basic.target\nAfter=basic.target\n' >etc/systemd/system/machine.target
  : >etc/fstab
  echo 5ec0de5ec0de5ec0de5ec0de5ec0de5e >etc/machine-id
}

case $1 in
  --inside) shift && inside "$@" ;;
  *) outside "$@" ;;
esac
