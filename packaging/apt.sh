#!/usr/bin/env bash
# Installs packages on Debian as root: apt.sh PACKAGE ... Waits up to five minutes for another apt that is at work.
set -eu
export DEBIAN_FRONTEND=noninteractive
seconds=300
# DPkg::Lock::Timeout covers the installation, but not the lock of the package lists.
deadline=$((SECONDS + seconds))
until said=$(LC_ALL=C apt-get update -qq 2>&1); do
    case $said in
        *"Could not get lock"*) ;;
        *) echo "$said" >&2; exit 1 ;;
    esac
    [ $SECONDS -lt $deadline ] || { echo "$said" >&2; exit 1; }
    sleep 2
done
apt-get -o DPkg::Lock::Timeout=$seconds install -y -qq --no-install-recommends "$@" >/dev/null
