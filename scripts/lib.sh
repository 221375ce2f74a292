# shellcheck shell=bash
# Sourced by scripts/demo and scripts/test: from a fresh machine with Python 3.11 and git to one on which they run.
#
#   explain "$@"              prints what the script does and ends it, if these words ask for help
#   explain_by MODULE "$@"    the same, from the Python program that the script runs, which needs nothing for that
#   become_root "$0" "$@"     packages and their databases are root's business; sudo is used where there is one
#   prepare [EXTRA [SYSTEM]]  makes .venv with the project (and an extra of it) and installs the system's packages:
#                             those that the extra needs, or SYSTEM: "test", "" for fleets (as demo),
#                             "packages" for tests of packages
#
# What is installed is found again by the second run, which then takes no time.

say() {
    printf '%s\n' "$*" >&2
}

fail() {
    say "$@"
    exit 1
}

explain() {
    is_help "$@" || return 0
    local script=scripts/${0##*/}
    [ -e "$script" ] || script=rpm/${0##*/}
    sed -n '2,/^[^#]/{/^#/s/^# \{0,1\}//p}' "$script"
    exit 0
}

explain_by() {
    local python
    is_help "${@:2}" || return 0
    python=$(find_python) || fail "expected Python 3.11 or later on the PATH, and found none; install it"
    PYTHONPATH=tests exec "$python" -m "$1" --help
}

is_help() {
    [[ " $* " == *" --help "* || " $* " == *" -h "* ]]
}

become_root() {
    [ "$(id -u)" = 0 ] && return
    command -v sudo >/dev/null || fail "$1 needs root: run it as root, or install sudo"
    exec sudo --preserve-env=CI,TERM,NO_COLOR,COLUMNS,JAVA_HOME,ZOOKEEPER_HOME,http_proxy,https_proxy,no_proxy "$@"
}

prepare() {
    local extra=${1:-} system=${2-${1:-}}
    local stamp=.venv/ready${extra:+-$extra}
    [ "$system" = "$extra" ] || stamp+=-for-${system:-fleets}
    mkdir -p build
    if ! is_current "$stamp" "$system"; then
        [ -f "$stamp" ] || [ "$system" != test ] ||
            say "the first run downloads Python packages (165 MB), packages of the system (up to 350 MB) and what it puts into build (130 MB)"
        make_environment "$extra"
        install_system_packages "$system"
        wanted >"$stamp"
    fi
    [ "$system" = packages ] || find_zookeeper ||
        fail "there is still no ZooKeeper; remove $PWD/$stamp and run this again"
    PATH=$PWD/.venv/bin:$PATH
    unset PYTHONDONTWRITEBYTECODE # programs start often, and would compile their modules each time
}

# What decides what is installed: the place of the checkout, the requirements in setup.cfg, and this file. Their times say
# nothing, because git sets these with each checkout.
wanted() {
    pwd
    { sed '/^\[tool:pytest\]/q' setup.cfg && cat scripts/lib.sh; } | cksum
}

# Whether everything is installed that is wanted.
is_current() {
    [ -f "$1" ] && [ "$(<"$1")" = "$(wanted)" ] || return
    [[ "$2" != @(test|bench) ]] || has_chromium || return
    [ "$2" != test ] || { has_nagios && has_axe && has_prometheus && has_balancers; }
}

# Runs a step and shows what it printed only if it failed.
quietly() {
    if ! attempt "$@"; then
        tail -n 40 build/setup.log >&2
        fail "could not set up: $1 (the whole output is in $PWD/build/setup.log)"
    fi
}

# Runs a step that may fail.
attempt() {
    say "setting up: $1"
    "${@:2}" </dev/null >build/setup.log 2>&1
}

make_environment() {
    local python target=.
    python=$(find_python) || fail "expected Python 3.11 or later on the PATH, and found none; install it"
    [ -z "$1" ] || target=".[$1]"
    if ! "$python" -c 'import ensurepip, venv' 2>/dev/null && command -v apt-get >/dev/null; then
        quietly "Python's venv module" apt_install python3-venv
    fi
    # A virtual environment cannot be moved, and one of another Python is of no use.
    if ! .venv/bin/python -c "import sys; sys.exit(sys.prefix != '$PWD/.venv')" 2>/dev/null; then
        rm -rf .venv
        quietly "virtual environment in .venv" "$python" -m venv .venv
    fi
    quietly "Python packages" env PIP_ROOT_USER_ACTION=ignore PIP_DISABLE_PIP_VERSION_CHECK=1 \
        .venv/bin/python -m pip install --quiet --editable "$target"
}

find_python() {
    local name
    for name in python3 python3.{14..11} python; do
        if "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$name"
            return
        fi
    done
    return 1
}

install_system_packages() {
    if command -v apt-get >/dev/null; then
        install_debian "$1"
    elif command -v dnf >/dev/null; then
        install_fedora "$1"
    else
        fail "expected a system with apt-get or dnf; install by hand: ZooKeeper, a Java runtime, rpm, dnf, createrepo_c, gpg"
    fi
}

install_debian() {
    local -a wanted=()
    { has rpm && has rpmbuild && has rpmsign; } || wanted+=(rpm)
    has dnf || has dnf5 || wanted+=(dnf)
    [ -z "$1" ] || ! has dnf5 || has_libdnf5 || wanted+=(python3-libdnf5)
    has createrepo_c || wanted+=(createrepo-c)
    has git || wanted+=(git)
    has gpg || wanted+=(gnupg)
    has ssh-keygen || wanted+=(openssh-client)
    [ "$1" != test ] || has shellcheck || wanted+=(shellcheck)
    [ "$1" != test ] || has spin || wanted+=(spin)
    [ "$1" != test ] || can_compile || wanted+=(gcc libc6-dev)
    [ "$1" != test ] || has svnadmin || wanted+=(subversion)
    [ "$1" != test ] || has systemd-analyze || wanted+=(systemd)
    [ "$1" != test ] || has systemd-nspawn || wanted+=(systemd-container)
    [ "$1" != test ] || has mmdebstrap || wanted+=(mmdebstrap)
    [ "$1" != test ] || has ip || wanted+=(iproute2)
    [ "$1" != test ] || has rpmlint || wanted+=(rpmlint)
    [[ "$1" != @(test|bench) ]] || has_chromium || wanted+=(chromium)
    [ "$1" != test ] || has_axe || has npm || wanted+=(npm)
    [ "$1" = packages ] || has java || wanted+=(default-jre-headless)
    if [ "$1" != packages ] && ! has_zookeeper; then
        refresh_apt
        if apt-cache show zookeeper >/dev/null 2>&1; then wanted+=(zookeeper); else wanted+=(maven); fi
    fi
    [ ${#wanted[@]} = 0 ] || quietly "${wanted[*]}" apt_install "${wanted[@]}"
    [ "$1" != test ] || has sshd || quietly "sshd, not as a service" without_service ssh apt_install openssh-server
    [ "$1" = packages ] || has_zookeeper || quietly "ZooKeeper" fetch_zookeeper
    [ "$1" != test ] || has_nagios || { refresh_apt && quietly "Nagios" fetch_nagios; }
    [ "$1" != test ] || has_axe || quietly "axe-core" fetch_axe
    [ "$1" != test ] || prepare_prometheus
    [ "$1" != test ] || has_balancers || { refresh_apt && quietly "HAProxy and nginx" fetch_balancers; }
    [ "$1" != test ] || make_machine
}

install_fedora() {
    local -a wanted=()
    has rpmbuild || wanted+=(rpm-build)
    has rpmsign || wanted+=(rpm-sign)
    [ -z "$1" ] || ! has dnf5 || has_libdnf5 || wanted+=(python3-libdnf5)
    has createrepo_c || wanted+=(createrepo_c)
    has git || wanted+=(git-core)
    has gpg || wanted+=(gnupg2)
    has ssh-keygen || wanted+=(openssh-clients)
    [ "$1" != test ] || has shellcheck || wanted+=(ShellCheck)
    [ "$1" != test ] || has spin || wanted+=(spin)
    [ "$1" != test ] || can_compile || wanted+=(gcc)
    [ "$1" != test ] || has svnadmin || wanted+=(subversion)
    [ "$1" != test ] || has systemd-analyze || wanted+=(systemd)
    [ "$1" != test ] || has rpmlint || wanted+=(rpmlint)
    [ "$1" != test ] || has_nagios || wanted+=(nagios nagios-plugins-dummy nagios-plugins-http nagios-plugins-tcp)
    [[ "$1" != @(test|bench) ]] || has_chromium || wanted+=(chromium)
    [ "$1" != test ] || has_prometheus || wanted+=(golang-github-prometheus)
    [ "$1" != test ] || has_balancers || wanted+=(haproxy nginx)
    [ "$1" != test ] || has_axe || has npm || wanted+=(npm)
    [ "$1" = packages ] || has java || wanted+=(java-headless)
    [ "$1" = packages ] || has_zookeeper || has mvn || wanted+=(maven)
    [ ${#wanted[@]} = 0 ] || quietly "${wanted[*]}" dnf --assumeyes --quiet install "${wanted[@]}"
    [ "$1" != test ] || has sshd ||
        quietly "sshd, not as a service" without_service sshd dnf --assumeyes --quiet install openssh-server
    [ "$1" = packages ] || has_zookeeper || quietly "ZooKeeper" fetch_zookeeper
    [ "$1" != test ] || has_axe || quietly "axe-core" fetch_axe
}

has() {
    command -v "$1" >/dev/null
}

# Whether the programs that spin generates can be compiled.
can_compile() {
    echo '#include <stdio.h>' | gcc -fsyntax-only -x c - 2>/dev/null
}

# Whether checks of repositories can use dnf 5.
has_libdnf5() {
    /usr/bin/python3 -c 'import libdnf5' 2>/dev/null
}

refresh_apt() {
    [ -n "${apt_is_fresh:-}" ] || quietly "package lists" apt-get --quiet update
    apt_is_fresh=1
}

apt_install() {
    [ -n "${apt_is_fresh:-}" ] || apt-get --quiet update
    apt_is_fresh=1
    DEBIAN_FRONTEND=noninteractive apt-get --quiet --yes install --no-install-recommends "$@"
}

# without_service NAME COMMAND...: installs a package whose service is neither started nor enabled by that.
# An interrupted installation leaves the service unmasked, too.
without_service() (
    local units=("$1.service" "$1.socket") status
    trap 'status=$?
        trap "" HUP INT TERM
        systemctl unmask "${units[@]}" && systemctl disable "${units[@]}" || status=$?
        exit "$status"' EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
    systemctl mask "${units[@]}" && "${@:2}"
)

# Whether there is a ZooKeeper on this machine, not only one in a container image.
has_zookeeper() {
    find_zookeeper && .venv/bin/python -c 'import sys; from zkdeployment.sandbox.zookeeper import find_installation; sys.exit(not find_installation().java)'
}

# Whether the sandbox finds a ZooKeeper; one that was fetched here is made known to it.
find_zookeeper() {
    if [ -z "${ZOOKEEPER_HOME:-}" ] && [ -d build/zookeeper/lib ]; then
        export ZOOKEEPER_HOME=$PWD/build/zookeeper
    fi
    .venv/bin/python -c 'from zkdeployment.sandbox.zookeeper import find_installation; find_installation()' 2>/dev/null
}

# Where no distribution package is: the jars of a release and of what its server needs, by maven.
fetch_zookeeper() {
    rm -rf build/zookeeper build/zookeeper-pom
    mkdir -p build/zookeeper-pom
    cp scripts/zookeeper-pom.xml build/zookeeper-pom/pom.xml
    mvn --batch-mode --quiet --file build/zookeeper-pom/pom.xml \
        dependency:copy-dependencies -DoutputDirectory="$PWD/build/zookeeper/lib" || return
    rm -r build/zookeeper-pom
}

# Whether there are Nagios and its plugins, of packages or unpacked here.
has_nagios() {
    { has nagios4 || has nagios || [ -x build/nagios/usr/sbin/nagios4 ]; } && has_plugins
}

has_plugins() {
    local place
    for place in /usr/lib/nagios /usr/lib64/nagios build/nagios/usr/lib/nagios; do
        [ ! -x "$place/plugins/check_tcp" ] || return 0
    done
    return 1
}

# Only the programs: to install the package would bring a mail server and a service.
fetch_nagios() {
    rm -rf build/nagios
    mkdir -p build/nagios
    (
        cd build/nagios && apt-get --quiet download nagios4-core monitoring-plugins-basic || exit
        for package in *.deb; do dpkg-deb --extract "$package" . || exit; done
    )
}

# Whether there is a Prometheus, of a package or unpacked here.
has_prometheus() {
    has prometheus || [ -x build/prometheus/usr/bin/prometheus ]
}

# Installs what the demo of analyses needs besides the fleet.
prepare_prometheus() {
    mkdir -p build
    has_prometheus && return
    if command -v apt-get >/dev/null; then
        refresh_apt
        quietly "Prometheus" fetch_prometheus
    elif command -v dnf >/dev/null; then
        quietly "Prometheus" dnf --assumeyes --quiet install golang-github-prometheus
    fi
    has_prometheus || fail "expected Prometheus, and found none; install it so that prometheus is on the PATH"
}

# Only the program: to install the package would start a service.
fetch_prometheus() {
    rm -rf build/prometheus
    mkdir -p build/prometheus
    (
        cd build/prometheus && apt-get --quiet download prometheus || exit
        for package in *.deb; do dpkg-deb --extract "$package" . || exit; done
    )
}

# Whether HAProxy and nginx start, of packages or unpacked here.
has_balancers() {
    local name libraries
    libraries=$(echo build/balancers/usr/lib/*-linux-gnu)
    for name in haproxy nginx; do
        has $name || LD_LIBRARY_PATH=$libraries build/balancers/usr/sbin/$name -v >/dev/null 2>&1 || return
    done
}

# Only the programs and the libraries that this machine lacks: to install the packages would start services.
fetch_balancers() {
    rm -rf build/balancers
    mkdir -p build/balancers
    (
        cd build/balancers || exit
        apt-get --simulate --no-install-recommends install haproxy nginx |
            sed -nE 's/^Inst (haproxy|nginx|lib[^ ]+) \(.*/\1/p' | xargs apt-get --quiet download || exit
        for package in *.deb; do dpkg-deb --extract "$package" . || exit; done
    )
}

has_chromium() {
    has chromium || has chromium-browser
}

# The rules for accessible pages that tests run in Chromium: a file of JavaScript, at this version.
axe_version=4.14.1

has_axe() {
    grep -qF "\"version\": \"$axe_version\"" build/axe/node_modules/axe-core/package.json 2>/dev/null
}

fetch_axe() {
    rm -rf build/axe
    npm install --prefix build/axe --no-package-lock --ignore-scripts --no-audit --no-fund --prefer-offline \
        "axe-core@$axe_version"
}

# The packages of the machine that tests boot: systemd, and what a host needs besides zkdeployment.
machine_packages=systemd-sysv,dbus,rpm,dnf,createrepo-c,python3,git,openssh-client

has_machine() {
    grep -qxF "$machine_packages" build/machine/made-of 2>/dev/null
}

# Without it only the tests of booted machines fail, and say what is missing: a restricted container cannot make it.
make_machine() {
    has_machine || attempt "a machine that boots systemd" fetch_machine ||
        say "could not make build/machine, which tests/system/test_booted.py boots; the output is in $PWD/build/setup.log"
}

# The root directory of the distribution that runs here. Each boot gives it a name and an id. Like other distributions of
# RPM, and unlike Debian's rpm, it has one database of packages for all users.
fetch_machine() (
    # shellcheck source=/dev/null
    . /etc/os-release
    components=main
    [ "$ID" = debian ] || components=main,universe
    make_root build/machine.new "$VERSION_CODENAME" --components="$components" --include="$machine_packages" || exit
    rm -f build/machine.new/etc/{hostname,resolv.conf}
    : >build/machine.new/etc/machine-id
    mkdir -p build/machine.new/etc/rpm
    echo "%_dbpath /var/lib/rpm" >build/machine.new/etc/rpm/macros
    echo "$machine_packages" >build/machine.new/made-of
    rm -rf --one-file-system build/machine
    mv build/machine.new build/machine
)

# make_root DIRECTORY SUITE OPTION...: makes a root directory of a distribution, without documentation. mmdebstrap mounts parts
# of this machine there, also /dev/shm; no other process sees these mounts, and they end with mmdebstrap, however it ends.
make_root() {
    rm -rf --one-file-system "$1"
    unshare --mount --propagation private mmdebstrap --variant=minbase --mode=root "${@:3}" \
        --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/doc/*' \
        --dpkgopt='path-exclude=/usr/share/locale/*' "$2" "$1"
}
