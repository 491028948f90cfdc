# setup.sh for a user without root: what root has to run. The programs in bin/ stand for those of such a machine.

$ mkdir bin; for p in 'id echo 1000' 'dpkg-query false' 'sudo false'; do set -- $p; name=$1; shift; printf '#!/bin/sh\n%s\n' "$*" > bin/$name; chmod +x bin/$name; done; PATH=$PWD/bin:$PATH "$ETT_ROOT/setup.sh" build
setup: installing: build-essential ...
setup: root is needed; as root, run: apt-get install build-essential ...
?1

# An installation by root leaves no file of root in the build folder of another user, and all may read what it writes.

$ mkdir tree tree/bin tree/build; cp "$ETT_ROOT/setup.sh" tree; [ "$(id -u)" != 0 ] || chown 1234 tree/build; printf '#!/bin/sh\necho install ok installed\n' > tree/bin/dpkg-query; printf '#!/bin/sh\n[ "$1" != --install ] || : > build/install_manifest.txt\n' > tree/bin/cmake; chmod +x tree/bin/*; umask 077; PATH=$PWD/tree/bin:$PATH tree/setup.sh install "$PWD/prefix" | tail -1; [ "$(stat -c %u tree/build)" = "$(stat -c %u tree/build/install_manifest.txt)" ]; stat -c %a tree/build/install_manifest.txt
setup: installed .../prefix/bin/ett
644
