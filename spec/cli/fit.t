# Samples become fitted models; faults of a sample file name the line, the column and the text.

# needs ett.regress_fit
$ export XDG_CACHE_HOME=$PWD/cache; mkdir s; awk 'BEGIN { print "mp,b,l,dim,F_dur(us),B_dur(us)"; for (i = 1; i <= 40; i++) printf "1,4,%d,%d,%.3f,%.3f\n", 512 + 64 * i, 1024 * (1 + i % 4), 50 + 10 * i * (1 + i % 4), 90 + 20 * i * (1 + i % 4) }' > s/A100_gelu_fp16.csv; ett fit s; ett fit s --json | grep -E '"(model|rows|held_out_mean_error_percent)"'; ett fit s/A100_gelu_fp16.csv --quiet; ls cache/ett/models | wc -l
model ... mean error %  median error %
gelu fp16 backward ...
gelu fp16 forward ...
      "held_out_mean_error_percent": ...
      "model": "gelu fp16 backward",
      "rows": 40
      "held_out_mean_error_percent": ...
      "model": "gelu fp16 forward",
      "rows": 40
2

$ ett fit
ett: fit: missing FOLDER; usage: ett fit FOLDER|FILE.csv ...
?2

$ ett fit nowhere
ett: fit: cannot read 'nowhere': no such file or folder
?1

$ mkdir s; ett fit s
ett: s: holds no table DEVICE_OPERATOR_PRECISION.csv with rows
?1

$ mkdir s; printf 'mp,b,l,dim,F_dur(us),B_dur(us)\n1,4,512,1024,5,9\n1,4,512,2048,nan,9\n' > s/A100_gelu_fp16.csv; ett fit s
ett: s/A100_gelu_fp16.csv: line 3: column 'F_dur(us)' must be a positive number, got 'nan'
?1

$ mkdir s; printf 'mp,b,l,dim,F_dur(us),B_dur(us)\n1,4,512,1024,5,-9\n' > s/A100_gelu_fp16.csv; ett fit s
ett: s/A100_gelu_fp16.csv: line 2: column 'B_dur(us)' must be a positive number, got '-9'
?1

$ mkdir s; printf 'mp,b,l,dim,F_dur(us),B_dur(us)\n1,4,512,1024,5\n' > s/A100_gelu_fp16.csv; ett fit s
ett: s/A100_gelu_fp16.csv: line 2: 5 fields where the header has 6
?1

$ mkdir s; printf 'mp,b,l,dim,F_dur(us),B_dur(us)\n1,4,512,1024,5,9\n1,4,5' > s/A100_gelu_fp16.csv; ett fit s
ett: s/A100_gelu_fp16.csv: line 3: 3 fields where the header has 6; is the file truncated?
?1

$ mkdir s; printf 'mp,b,dim,F_dur(us),B_dur(us)\n1,4,1024,5,9\n' > s/A100_gelu_fp16.csv; ett fit s
ett: s/A100_gelu_fp16.csv: no column 'l'; it has mp, b, dim, F_dur(us), B_dur(us)
?1

$ mkdir s; : > s/A100_gelu_fp16.csv; ett fit s
ett: s/A100_gelu_fp16.csv: empty; expected a header line and rows
?1

$ mkdir s; printf 'mp,b,l,dim,F_dur(us),B_dur(us)\n1,4,512,1024,5,9\n\377\n' > s/A100_gelu_fp16.csv; ett fit s
ett: s/A100_gelu_fp16.csv: line 3: not UTF-8 at byte 48 (0xff)
?1

# If all tables are too short, they are listed and the exit status is 1.

# needs ett.regress_fit
$ mkdir s; for op in gelu softmax; do printf 'mp,b,h,l,dim,F_dur(us),B_dur(us)\n1,4,8,512,1024,5,9\n' > s/Nine_${op}_fp16.csv; done; ett fit s --fresh
model ...
gelu fp16 backward ...fewer than the 8 shapes that a fit needs
gelu fp16 forward ...fewer than the 8 shapes that a fit needs
softmax fp16 backward ...fewer than the 8 shapes that a fit needs
softmax fp16 forward ...fewer than the 8 shapes that a fit needs
ett: fit: no table could be fitted: s/Nine_gelu_fp16.csv (fewer than the 8 shapes that a fit needs), s/Nine_softmax_fp16.csv (fewer than the 8 shapes that a fit needs); measure more shapes
?1

# On a device with kernel tables a few rows scale these.

# needs ett.regress_fit
$ mkdir s; printf 'mp,b,h,l,dim,F_dur(us),B_dur(us)\n1,4,8,512,1024,5,9\n' > s/A100_gelu_fp16.csv; ett fit s --fresh
model ...
gelu fp16 backward     1        0             -               -
gelu fp16 forward      1        0             -               -

# A few rows of a collective scale the times of the links.

# needs ett.regress_fit
$ mkdir s; printf 'shape,dur(us)\n16384,30.7\n33554432,588.5\n' > s/A100_all_reduce_fp16_1_8.csv; ett fit s --fresh
model ...
all_reduce fp16 all_reduce_1_8     2        0             -               -

# Columns may stand in any order.

# needs ett.regress_fit
$ export XDG_CACHE_HOME=$PWD/cache; mkdir s; awk 'BEGIN { print "B_dur(us),dim,l,b,mp,F_dur(us)"; for (i = 1; i <= 40; i++) printf "%.3f,%d,%d,4,1,%.3f\n", 90 + 20 * i * (1 + i % 4), 1024 * (1 + i % 4), 512 + 64 * i, 50 + 10 * i * (1 + i % 4) }' > s/A100_gelu_fp16.csv; ett fit s | wc -l
3

# Dropped rows are listed by file, reason and line, also for models from the cache.

# needs ett.regress_fit
$ export XDG_CACHE_HOME=$PWD/cache; mkdir s; awk 'BEGIN { print "mp,b,l,dim,F_dur(us)"; for (i = 1; i <= 60; i++) printf "1,4,%d,%d,%.3f\n", 512 + 64 * i, 1024 * (1 + i % 4), (i == 30 ? 1000 : 1) * (50 + 10 * i * (1 + i % 4)) }' > s/A100_gelu_fp16.csv; ett fit s; ett fit s | tail -1; ett fit s --json | grep '"line"'; ett calibrate perlmutter s --into out --source us | tail -4
model ... dropped ...
gelu fp16 forward ... 59 ... 1 ...
.
dropped by the outlier filter:
s/A100_gelu_fp16.csv: gelu fp16 forward: 1 row ...: line 31
s/A100_gelu_fp16.csv: gelu fp16 forward: 1 row ...: line 31
      "line": 31,
gelu forward ... 59 ... 1 ...
.
dropped by the outlier filter:
s/A100_gelu_fp16.csv: gelu forward: 1 row ...: line 31

A table of a campaign that holds no row yet is left out; one that is not ours is damaged.
# needs ett.regress_fit
$ mkdir s; printf '# ett: 0.1.0\nmp,b,l,dim,F_dur(us),B_dur(us)\n# failed: 1,4,512,8: no memory\n' > s/A100_rms_norm_fp16.csv; ett fit s; ett fit s/A100_rms_norm_fp16.csv; awk 'BEGIN { print "# ett: 0.1.0\nmp,b,l,dim,F_dur(us),B_dur(us)"; for (i = 1; i <= 8; i++) printf "1,4,%d,%d,%.3f,%.3f\n", 512 * i, 1024, 50 * i, 90 * i }' > s/A100_gelu_fp16.csv; XDG_CACHE_HOME=$PWD ett fit s | cut -d" " -f1-3 | sort -u; printf 'mp,b,l,dim,F_dur(us),B_dur(us)\n' > s/A100_rms_norm_fp16.csv; ett fit s
ett: s: holds no table DEVICE_OPERATOR_PRECISION.csv with rows
ett: fit: 's/A100_rms_norm_fp16.csv' is no sample table: expected rows in a file DEVICE_OPERATOR_PRECISION.csv
gelu fp16 backward
gelu fp16 forward
model...
ett: s/A100_rms_norm_fp16.csv: holds a header and no rows
?1

# A plot for each table and pass, and a page of them; the splits are in the JSON. A pass faster than its device is void.

# needs ett.regress_fit
$ export XDG_CACHE_HOME=$PWD/cache; mkdir s; awk 'BEGIN { print "mp,b,l,dim,F_dur(us),B_dur(us)"; for (b = 1; b <= 5; b++) for (d = 1024; d <= 8192; d += 512) { f = 6e-3 * b * 1024 * d * d / 1e3; printf "1,%d,1024,%d,%.4f,%.4f\n", b, d, f / 200 + 5, f / 200 } }' > s/NVIDIAA100-SXM4-80GB_linear1_fp16.csv; ett fit s --svg out/plots; ls out/plots; ett fit s --splits --json --svg out/plots | grep -E '"(fault|split|seed)"|plots/'
model ... mean error %  median error %
gemm fp16 backward     -        -             -               -  void: ... of 75 rows (100 %) are faster than the device's peak
gemm fp16 forward     75        0 ...
.
dropped by the outlier filter:
s/NVIDIAA100-SXM4-80GB_linear1_fp16.csv: gemm fp16 backward: ... of 75 rows (100 %) are faster than the device's peak; the pass is void, none of its rows is used
.
1 plot in out/plots; out/plots/index.html shows all
NVIDIAA100-SXM4-80GB_linear1_fp16_forward.svg
index.html
      "fault": "void: 75 of 75 rows (100 %) are faster than the device's peak",
    "out/plots/NVIDIAA100-SXM4-80GB_linear1_fp16_forward.svg",
    "out/plots/index.html"
  "seed": ...
      "split": "random"
      "fault": "void: 75 of 75 rows (100 %) are faster than the device's peak",
      "split": "random"
      "split": "grouped"
...

# needs ett.regress_fit
$ mkdir s; awk 'BEGIN { print "mp,b,l,dim,F_dur(us)"; for (i = 1; i <= 40; i++) printf "1,4,%d,1024,%d\n", 64 * i, 5 + i }' > s/A100_gelu_fp16.csv; : > file; ett fit s --svg file; ett fit s --svg /dev/null/plots --quiet
ett: fit: --svg needs a folder, but 'file' is a file
ett: fit: --svg: cannot make folder '/dev/null/plots': not a directory
?1

A folder that cannot be written is refused before the fits, once.
$ mkdir s; : > s/A100_gelu_fp16.csv; ett fit s --svg /proc/plots; ett fit s --svg /proc/self/fdinfo
ett: fit: --svg: cannot make folder '/proc/plots': no such file or directory
ett: fit: --svg: cannot write '/proc/self/fdinfo': ...
?1

$ mkdir s; printf 'a,F_dur(us)\n1,2\n' > s/A100_my_own_fp16.csv; ett fit s
ett: s/A100_my_own_fp16.csv: no operator or collective 'my_own' is known; give the folder of its file with --path DIR or in ETT_PATH
?1

$ export XDG_CACHE_HOME=$PWD/cache; mkdir s; awk 'BEGIN { print "mp,b,l,dim,F_dur(us),B_dur(us)"; for (i = 1; i <= 40; i++) printf "1,4,%d,%d,%.3f,%.3f\n", 512 + 64 * i, 1024 * (1 + i % 4), 50 + 10 * i * (1 + i % 4), 90 + 20 * i * (1 + i % 4) }' | tee s/A100_gelu_fp16.csv > s/A100_my_own_fp16.csv; ett fit s --quiet
ett: note: s/A100_my_own_fp16.csv: no operator or collective 'my_own' is known; give the folder of its file with --path DIR or in ETT_PATH; skipped
