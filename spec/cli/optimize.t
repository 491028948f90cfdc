# The notebook's budget: the optimum on 776 pods.
$ ett optimize --devices 776
pods  used   H100    days    util    dollars  bound by  layout
 776   663  21216  404.37  0.5454  6.177e+08  compute   pp=221 dp=3 tp_hidden=1 tp_residual=1 microbatches=...
price: device_dollars_per_hour = 96 (default)

$ ett optimize --days 400 --json
{
  "rows": [
    {
...
      "devices_used": 828,
...
      "proven": true,
      "run_days": 399.8...,
      "run_dollars": 762848166...,
      "unit": "pods of 32 H100",
      "unit_devices": 32,
...

$ ett optimize --model simple --devices 64 --max-days 1 n_layers=96 d_model=12288
ett: optimize: no layout of at most 64 devices meets the limits of model 'simple' and 1 days
?1

$ ett optimize --devices 4:2
ett: optimize: --devices must be N, N,M,... or LOW:HIGH[:PER_OCTAVE], got '4:2'
?2

$ ett optimize layers=3
ett: unknown parameter 'layers'; parameters: batch_scale, budget_flop, ..., utilization
?2

$ ett optimize budget=1e26
ett: unknown parameter 'budget'; did you mean 'budget_flop'?
?2

# Parameters that the search chooses are refused.
$ ett optimize pp=4
ett: parameter 'pp' cannot be set: the search chooses it
?2

$ ett optimize --model simple recompute=1
ett: parameter 'recompute' cannot be set: the search chooses it
?2

$ ett optimize devices=3
ett: parameter 'devices' cannot be set: the search chooses it, at most the number of devices given
?2

# A tenth of the budget takes a tenth of the days of 64 pods; the help lists every parameter.
$ ett optimize budget_flop=4e25 --devices 64 --json | grep '"run_days"'
      "run_days": 286.1...

$ ett optimize --help | grep -E '^parameters|budget_flop|default 1024'
parameters of pods with their defaults:
  batch_scale=1 budget_flop=4e+26 ...
parameters of simple with their defaults:
  --devices N ...(default 1024)

# The column util is of the used pods, the bandwidth of all.
$ ett optimize --utilization 0.4
least bandwidth: ... bytes/s, for 0.4 of the peak of 1024 pods of 32 H100 (32768 H100); util is that of the devices used
...

# The fewest H100 in nodes of eight for a run of 30 days in 16 bits.
$ ett optimize --model simple --cluster dgx_h100 --days 30 n_layers=48 d_model=8192 precision_bits=16
...
  ...compute   pp=...
price: chip_dollars_per_hour = 6.88 (AWS p5.48xlarge, ...)

$ ett optimize --model pods --cluster dgx_h100
ett: optimize: --cluster needs --model simple
?2

# The Pareto front of days and dollars.
$ ett optimize --devices 64:2048:1 --pareto days,dollars
pods  used   H100     days    util    dollars  bound by  layout
2048  1989  63648   375.02  0.1960  1.719e+09  network   pp=221 dp=9 tp_hidden=1 tp_residual=1 microbatches=...
1024 ...
 512 ...
 256 ...
 128 ...
  64    64   2048  2858.32 ...
price: device_dollars_per_hour = 96 (default)

$ ett optimize --devices 64,128 --pareto dayz
ett: optimize: --pareto must be one or two of days, dollars, devices, got 'dayz'; did you mean 'days'?
?2

$ ett optimize --devices 64,128 --pareto ,
ett: optimize: --pareto must be one or two of days, dollars, devices, got ','
?2

$ ett optimize --utilization 1e-300 --real
ett: optimize: 1000 bytes/s, the least bandwidth searched, gives 1024 pods of 32 H100 (32768 H100) more than 1e-300 of their peak
?1

# A limit on days holds for --utilization and --days, too.
$ ett optimize --utilization 0.5 --max-days 200
least bandwidth: 4.4456e+10 bytes/s, for 0.7139 of the peak of 1024 pods ...
pods ...
1024  1024  32768  200.00  0.7139 ...
price: device_dollars_per_hour = 96 (default)

$ ett optimize --days 400 --max-days 100
ett: optimize: 400 days cannot be reached with at most 100000 pods of 32 H100 (3200000 H100)
?1

# A layout of fewer devices than allowed is found at its own number: --exact-devices does not change the answer.
$ ett optimize --model simple --days 0.5 --devices 123457 --exact-devices --objective devices
devices ...
  55296  55296  0.45 ...
price: chip_dollars_per_hour = 3 (default)

$ ett optimize --devices 64 --exact-devices --objective devices --real
pods ...
  64    64  2048 ...
price: device_dollars_per_hour = 96 (default)

# The content of a pod is unknown if its rates are given.
$ ett optimize --devices 64 device_flops=1e17
pods  used     days ...
  64    64 ...
price: device_dollars_per_hour = 96 (default)

# Many pods for few days: far below their peak.
$ ett optimize --days 210
 pods   used     H100    days    util    dollars  bound by  layout
98787  98787  3161184  209.43  0.0071 ...
price: device_dollars_per_hour = 96 (default)
warning: below 5 % of the peak: 98787 pods (0.71 %)

$ ett optimize --devices 64 --csv
best,bound,bound_by,...,layout.dp,...,phases.steady_and_bubble.seconds,...,price_per_device_hour,price_source,...
...,64,64,...,96,default,...

$ for price in '' chip_dollars_per_hour=2.5; do ett optimize --model simple --cluster mi300x_node --devices 64 --csv $price | tail -1; done
...,64,64,...,6,"Azure and Oracle, list, 18 May 2026: 6 $ per GPU and hour",...
...,64,64,...,2.5,given,...

$ ett optimize --devices 64 --csv --table zz
ett: --table: no table 'zz'; there are rows
?2

$ ett optimize --days 3 --devices 20000 --objective dollars
ett: optimize: 3 days cannot be reached with at most 20000 pods of 32 H100 (640000 H100); the cheapest layout takes 182763.93 days
?1

$ ett optimize --days 3 --devices 20000 --objective devices
ett: optimize: 3 days cannot be reached with at most 20000 pods of 32 H100 (640000 H100); the fastest layout takes 369.86 days
?1

$ ett optimize --objective speed
ett: optimize: option '--objective' must be one of days, dollars, devices, got 'speed'
?2

$ ett optimize --devices 776 --sensitivities
...
SENSITIVITIES, new searches      days      util   dollars  layout
device_network x 1.1 ...
device_memory x 1.1 ...
device_flops x 1.1 ...
batch_scale x 2 ...
pods x 1.1 ...

# A given gap is printed.
$ ett optimize --devices 776 --gap 0.05
pods ...
 776 ...(gap 0.0...)
price: device_dollars_per_hour = 96 (default)

# A given latency is that of a node's links, too.
$ (for a in '' node_latency_seconds=1e-3; do ett optimize --model simple --cluster dgx_h100 --devices 64 latency_seconds=1e-3 $a; done) | tail -n +2 | sort | uniq -c | grep -c ' 2 .*pp='
1

# Dollars are at the price of the cluster, unless one is given.
$ for a in 'dgx_b200' 'alps' 'dgx_b200 chip_dollars_per_hour=2'; do ett optimize --model simple --devices 64 --cluster $a; done | grep -v ^devices
     64    64  168.99  0.5996  3.696e+06 ...
price: chip_dollars_per_hour = 14.24 (AWS p6-b200.48xlarge, on demand, us-east-1, 2026: 113.93 $/h)
     64    64  384.45  0.5996  1.772e+06 ...
price: chip_dollars_per_hour = 3 (assumed: the cluster 'alps' has no price)
     64    64  168.99  0.5996  5.192e+05 ...
price: chip_dollars_per_hour = 2 (given)

$ ett optimize --model simple --cluster dgx_b200 --devices 64 --max-dollars 1e6
ett: optimize: no layout of at most 64 devices meets the limits of model 'simple'
?1

$ ett optimize --model simple --cluster dgx_b200 --devices 64 --json
{
...
      "price_per_device_hour": 14.24,
      "price_source": "AWS...
...
