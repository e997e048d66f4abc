#!/usr/bin/env bash
# Makes sure that Spark finds Java 17 or newer: installs Debian's package when root on Debian, else says what to do.
set -eu
needed=17
java=java
[ -n "${JAVA_HOME:-}" ] && java=$JAVA_HOME/bin/java
major() { "$java" -version 2>&1 | sed -n 's/.*version "\(1\.\)\{0,1\}\([0-9]*\).*/\2/p' | head -n 1; }
version=$(command -v "$java" >/dev/null 2>&1 && major || true)
[ "${version:-0}" -ge $needed ] && exit 0
found=${version:+Java $version}
echo "Spark needs Java $needed or newer; found: ${found:-none}." >&2
if [ "$(id -u)" = 0 ] && [ -z "${JAVA_HOME:-}" ] && command -v apt-get >/dev/null 2>&1; then
    echo "Installing openjdk-17-jre-headless with apt-get ..." >&2
    mkdir -p /usr/share/man/man1 # the package links its manual there, and minimal systems lack the folder
    if "$(dirname "$0")/../../packaging/apt.sh" openjdk-17-jre-headless >&2; then
        version=$(major || true)
        [ "${version:-0}" -ge $needed ] && exit 0
    fi
    echo "That did not work." >&2
fi
cat >&2 <<'EOF'
Please install it and run make again:
  Debian, Ubuntu   sudo apt-get install openjdk-17-jre-headless
  Fedora           sudo dnf install java-17-openjdk-headless
  macOS            brew install openjdk@17, then set JAVA_HOME
  elsewhere        https://adoptium.net
If you have it already, set JAVA_HOME to its folder.
EOF
exit 1
