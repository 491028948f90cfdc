$ ett calibrate
ett: calibrate: expected CLUSTER FOLDER ...; see `ett calibrate --help`
?2

$ ett calibrate perlmuter x --source y
ett: unknown cluster 'perlmuter'; did you mean 'perlmutter'?
?2

$ ett calibrate dgx_a100 . --source y
ett: calibrate: cluster dgx_a100 is a file, and only a folder with init.lua holds a profile; give --into FOLDER
?2

$ mkdir mine; echo 'return { name = "mine", summary = "x", source = "x", gpus_per_node = 1, device = "a100_sxm", links = {} }' > mine/init.lua; ett calibrate ./mine . --source y
ett: calibrate: cluster mine names no folder of its own: state profile = "profile" in its init.lua; give --into FOLDER
?2

$ ett calibrate perlmutter /nowhere --source y
ett: calibrate: '/nowhere' is not a folder
?1

# If nothing can be fitted, nothing is written. A path that is no folder is refused before the fits.

$ mkdir s; printf 'mp,b,l,dim,F_dur(us)\n1,4,512,1024,5\n' > s/A100_gelu_fp16.csv; ett calibrate perlmutter s --into out --source us; ls out; : > file; ett calibrate perlmutter s --into file --source us
ett: s: nothing to calibrate: forward 1 shape; at least 8 are needed: measure more shapes
ls: ...
ett: calibrate: 'file' is a file, not a folder to write into
?1

# A fault in the last table leaves the files of the first as they were.

# needs ett.regress_fit
$ mkdir s out; awk 'BEGIN { print "mp,b,l,dim,F_dur(us)"; for (i = 1; i <= 40; i++) printf "1,4,%d,1024,%d\n", 64 * i, 5 + i }' > s/A100_gelu_fp16.csv; echo old > out/gelu.fp16.coefficients.lua; printf 'mp,b,l,dim,F_dur(us)\n1,4,512,1024,nan\n' > s/A100_layernorm_fp16.csv; ett calibrate perlmutter s --into out --source us; cat out/*
ett: s/A100_layernorm_fp16.csv: line 2: column 'F_dur(us)' must be a positive number, got 'nan'
old

# Two devices are two profiles: a cluster is calibrated from one, ett fit takes each.

# needs ett.regress_fit
$ export XDG_CACHE_HOME=$PWD/cache; mkdir s; for d in A100 H100; do awk 'BEGIN { print "mp,b,l,dim,F_dur(us)"; for (i = 1; i <= 40; i++) printf "1,4,%d,1024,%d\n", 64 * i, 50 + 10 * i }' > s/${d}_gelu_fp16.csv; done; ett fit s; ett calibrate perlmutter s --into out --source us
model ...
gelu fp16 forward ... 40 ... A100
gelu fp16 forward ... 40 ... H100
ett: s: samples of several devices (A100, H100); a profile covers one: keep each device in its own folder
?1
