#!/usr/bin/env bash
# Brings what the tests with Kerberos need: the library's headers, for the package gssapi has no wheel for Linux, and MIT's KDC. Through apt
# where root on Debian, else says what to do. Nothing of the configuration of the system's Kerberos is used.
set -eu
PATH=$PATH:/usr/sbin:/sbin
need=()
command -v krb5-config >/dev/null || need+=(libkrb5-dev)
command -v krb5kdc >/dev/null || need+=(krb5-kdc)
command -v kadmin.local >/dev/null || need+=(krb5-admin-server)
command -v kinit >/dev/null || need+=(krb5-user)
command -v gcc >/dev/null || need+=(gcc libc6-dev)
"${PYTHON:-python3}" -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))' || need+=(python3-dev)
[ ${#need[@]} -eq 0 ] && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "Installing ${need[*]} ..."
    "$(dirname "$0")/../packaging/apt.sh" "${need[@]}"
else
    echo "The tests with Kerberos need ${need[*]} (Debian's names): please install them and run this again." >&2
    exit 1
fi
