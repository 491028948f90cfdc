A campaign of three small shapes.
$ cat > tiny.lua <<'X'
> return { name = "tiny", backend = "cpu", precision = "fp32", seed = 1, budget_seconds = 0.002, cold_bytes = 1 << 20,
>   samples = { { operator = "gelu", shapes = { tokens = 16, width = { 16, 32, 64 } } } } }
> X
> ett sample tiny.lua --out a --quiet && ls a && ett sample tiny.lua --out a --json 2>/dev/null
a/...gelu_fp32.csv: 3 measured, 0 failed, ... disturbed in ...
...gelu_fp32.csv
[
  {
    "disturbed": ...,
    "failed": 0,
    "failed_before": 0,
    "held": 3,
    "interrupted": false,
    "measured": 0,
    "name": "gelu",
    "path": "a/...gelu_fp32.csv",
    "seconds": ...,
    "total": 0
  }
]

No line of progress or of output gets into a table whose number was a closed stream's.
$ cat > tiny.lua <<'X'
> return { name = "tiny", backend = "cpu", precision = "fp32", seed = 1, budget_seconds = 0.002, cold_bytes = 1 << 20,
>   samples = { { operator = "gelu", shapes = { tokens = 16, width = { 16, 32, 64 } } } } }
> X
> ett sample tiny.lua --out a 2>&- >&-; grep -c measure a/*.csv; grep -c '^16,' a/*.csv
0
3

Time that is over is no fault, and failed shapes are recorded with their reason.
$ cat > tiny.lua <<'X'
> return { name = "tiny", backend = "cpu", precision = "fp32", seed = 1, budget_seconds = 0.002, cold_bytes = 1 << 20,
>   samples = { { operator = "gelu", shapes = { tokens = 16, width = { 16, 32, 64 } } },
>     { operator = "swiglu", shapes = { tokens = 16, width = 16 } } } }
> X
> ett sample tiny.lua --out a --seconds 1e-6 2>/dev/null && ett sample tiny.lua --out a --memory 1 2>/dev/null
a/...gelu_fp32.csv: 0 measured, 0 failed, ... disturbed in ...
  unfinished: 3 shapes are left; the same command continues
1 more table not begun; the same command continues
a/...gelu_fp32.csv: 0 measured, 3 failed, ... disturbed in ...
  last failure: 16,...
a/...swiglu_fp32.csv: 0 measured, 1 failed, ... disturbed in ...
  last failure: 16,...
?1

$ ett sample cpu_30s --target-error 0.1
ett: sample: --target-error needs --active
?2

$ ett sample cpu_30s --active --target-error gird
ett: sample: option '--target-error' must be a positive number such as 0.05, or 'grid', got 'gird'
?2

$ ett sample cpu_30s --active --target-error -1
ett: sample: option '--target-error' must be a positive number such as 0.05, or 'grid', got '-1'
?2

$ ett sample cpu_30s --autotune
ett: sample: --autotune needs the back end cuda, not cpu
?2

$ ett sample cpu_30s --backend torch --memory 1G
ett: sample: --memory needs the back end cpu, not torch
?2

$ ett sample cpu_30s --backend torch --budget 1
ett: sample: --budget does not apply to the back end torch, which runs fixed numbers of iterations
?2

$ ett sample cpu_30s --run sometimes
ett: sample: option '--run' must be one of get_all, get_one, get_profiler, run_function, got 'sometimes'
?2

$ ett sample cpu_30s --device 4000
ett: sample: --device must be a processor from 0 to ..., got 4000
?2

$ ett sample cpu_30s --threads 0
ett: sample: option '--threads' must be a positive integer, got '0'
?2

$ ett sample cpu_30s --precision ,
ett: sample: option '--precision' must be names separated by commas, each once, got ','
?2

$ ett sample cpu_30s --out ''
ett: the name of a folder is empty
?2
