#!/usr/bin/env bash
# Runs the README's two commands on a Debian that has nothing but python3, make and git.
#
#   scripts/bare-debian.sh [FOLDER] [demo|test]...
#
# makes that Debian in FOLDER, of the same release as this machine, clones the committed HEAD into it with ../shared
# beside it, and runs `make demo` and `make test` there, or only the ones named. A FOLDER that holds such a Debian
# already is used again: the clone is new, but the packages that earlier runs installed are still there. Without FOLDER
# a temporary one is made, and removed if all went well. Needs root on Debian.
set -euo pipefail

die() {
    echo "$*" >&2
    exit 1
}

folder=
wanted=()
for word in "$@"; do
    case $word in
        demo | test) wanted+=("$word") ;;
        -*) die "Usage: ${0##*/} [FOLDER] [demo|test]..." ;;
        *)
            test -z "$folder" || die "One folder is enough: $folder or $word?"
            folder=$word
            ;;
    esac
done
test ${#wanted[@]} -gt 0 || wanted=(demo test)

test "$(id -u)" = 0 || die "${0##*/} needs root, to install a Debian in a folder and change its root to it."
command -v apt-get >/dev/null || die "${0##*/} needs Debian's apt-get, whose settings it takes over."
command -v debootstrap >/dev/null || {
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends debootstrap
}

repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
temporary=
if test -z "$folder"; then
    folder=$(mktemp -d --suffix=-bare-debian)
    chmod 755 "$folder" # apt drops its rights to a user who must be able to read it
    temporary=$folder
else
    mkdir -p "$folder"
    folder=$(cd "$folder" && pwd)
fi
made=$folder/.bare-debian # there once the Debian is complete
test -e "$made" || test -z "$(ls -A "$folder")" ||
    die "$folder is neither empty nor a Debian that this script completed: name another folder, or remove it."

# Jobs of their own process group: else bash would have them ignore Ctrl-C, and the tests send that to what they start.
set -m
job=
stop() {
    test -z "$job" || kill -KILL "$job" 2>/dev/null || true
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# Runs a command in mount and process namespaces of its own. Its mounts and its processes end with it, however it ends.
apart() {
    unshare --mount --pid --fork --kill-child --mount-proc "$@" </dev/null &
    job=$!
    local code=0
    wait "$job" || code=$?
    job=
    return "$code"
}

# The settings by which this machine's apt, pip and uv reach their registries, as variables ...
settings() {
    env | grep -iE '^((https?|ftp|all|no)_proxy|PIP_\w+|UV_\w+|SSL_CERT_\w+|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE)=' || true
}

# ... as files ...
take_over_settings() {
    local path
    for path in /etc/resolv.conf /etc/hosts /etc/apt /usr/share/keyrings /etc/ssl/certs \
        /usr/local/share/ca-certificates /etc/pip.conf /etc/xdg/pip /etc/uv "$HOME"/.{pip,config/pip,config/uv}; do
        test -e "$path" || continue
        mkdir -p "$folder${path%/*}"
        # Links here are followed, for they may lead to what the new Debian lacks; one that leads nowhere is no loss.
        # Links there are replaced, for seen from here they lead to this machine's own files.
        cp -RL --preserve=mode --remove-destination "$path" "$folder${path%/*}/" || true
    done
}

# ... and as folders of packages that variables or files name. What lies in /etc has been copied, and the pages of a local
# index lie in a folder `simple` beside the packages they link to.
package_folders() {
    local path
    { settings; cat /etc/pip.conf /etc/xdg/pip/pip.conf "$HOME"/.{pip,config/pip}/pip.conf 2>/dev/null || true; } |
        tr ' =' '\n\n' | sed -nE 's,^(file://)?/,/,p' | sed -e 's,/simple/*$,,' -e '/^\/etc\//d' | sort -u |
        while read -r path; do test ! -d "$path" || echo "$path"; done
}

if test ! -e "$made"; then
    release=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
    test -n "$release" || die "/etc/os-release names no release of Debian."
    apt-get update -qq # the lists know the mirror
    mirror=$(apt-get indextargets --format '$(RELEASE) $(REPO_URI)' 'Created-By: Packages' |
        sed -n "s/^$release //p" | head -n 1)
    echo "Making a Debian $release in $folder"
    apart debootstrap --variant=minbase --include=python3,make,git "$release" "$folder" ${mirror:+"$mirror"} \
        >"$folder/debootstrap.log" 2>&1 ||
        { tail -n 20 "$folder/debootstrap.log"; die "debootstrap failed: $folder/debootstrap.log has all it said."; }
    rm "$folder/etc/apt/sources.list" # this machine's take its place
    take_over_settings
    touch "$made"
fi

echo "Cloning $(git -C "$repository" log -1 --format='%h, %s')"
rm -rf --one-file-system "$folder/srv/wane" "$folder/srv/shared"
git clone --quiet "$repository" "$folder/srv/wane"
test ! -d "$repository/../shared" || cp -rL "$repository/../shared" "$folder/srv/shared"

# Runs make in the new Debian, with the settings as its only environment. The shell stays to reap orphans, as init does.
inside() {
    local environment
    mapfile -t environment < <(settings)
    # shellcheck disable=SC2016  # the inner shell expands these
    apart bash -euc '
        for name in dev sys; do mount --rbind "/$name" "$1/$name"; done
        mount -t proc proc "$1/proc"
        while read -r path; do
            test -n "$path" || continue
            mkdir -p "$1$path"
            mount --bind "$path" "$1$path"
        done <<<"$2"
        chroot "$1" env -i "${@:3}"
        exit' \
        bash "$folder" "$(package_folders)" "${environment[@]}" HOME="$HOME" LANG=C.UTF-8 CI=true \
        PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin make -C /srv/wane "$@"
}

failed=
for name in "${wanted[@]}"; do
    log=$folder/var/log/wane-$name.log
    command=("$name")
    test "$name" != demo || command+=(DEMO_ARGS=--no-dashboard) # the dashboard would serve until Ctrl-C
    echo "== make ${command[*]}, all it says is in $log"
    SECONDS=0
    outcome=passed
    inside "${command[@]}" >"$log" 2>&1 || outcome="failed with exit code $?" failed=yes
    tail -n 20 "$log"
    echo "== make $name $outcome after $((SECONDS / 60)) min $((SECONDS % 60)) s"
done

test -z "$failed" || exit 1
test -z "$temporary" || rm -rf --one-file-system "$temporary"
