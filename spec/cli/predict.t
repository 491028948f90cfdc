# What `ett predict` and `ett sweep` say; figures are the business of specs.
$ ett predict
ett: predict: needs --config FILE.yml, or --model NAME or config.json; `ett predict --help` says more
?2

$ ett predict --composition best
ett: predict: unknown composition 'best'; known are default, reference
?2

$ ett predict --composition reference --config nowhere.yml
ett: cannot read 'nowhere.yml': no such file or directory
?1

$ ett predict --model lama layers=4
ett: unknown architecture 'lama'; did you mean 'llama'?
?1

$ ett predict --model llama layer=32
ett: predict: unknown field 'layer'; did you mean 'layers'?
?2

$ ett predict --model llama layers=8 hidden=1024 heads=16 vocab=32000 seq=2048 micro_batches=4 tp=3 pp=16
ett: plan: tp = 3 must divide heads = 16; nearest are 2 and 4; tp = 3 must divide ffn = 2816; nearest are 2 and 4; pp * vp = 16 must not exceed the model's 8 layers, embedding and head; the nearest pp is 10; nearest passing plans on 48 devices: ...
?1

$ ett predict --model llama layers=8 hidden=1024 heads=16 vocab=32000 seq=2048 micro_batches=4 dp=2 bucket_bytes=0
ett: plan: field 'bucket_bytes' must be a positive number, got 0
?1

$ ett predict --model llama layers=8 hidden=1024 heads=16 vocab=32000 seq=2048 micro_batches=4 --cluster perlmuter
ett: unknown cluster 'perlmuter'; did you mean 'perlmutter'?
?1

$ ett predict --model llama layers=8 hidden=1024 heads=16 vocab=32000 seq=2k micro_batches=4 pp=2 tp=2 dp=2
llama (0.17 B parameters) on 8 x NVIDIAA100-SXM4-80GB (perlmutter)
pp 2, tp 2, dp 2, micro-batch 1 x 4, sequence 2000, bf16, 1f1b
...

$ ett sweep --model llama layers=8 hidden=1024 heads=16 vocab=32000 seq=2048 global_batch=16 pp=1,2 tp=1..4
llama on perlmutter: 6 plans evaluated, 0 refused, best by step_seconds
...

$ ett sweep --model llama layers=8 hidden=1024 heads=16 vocab=32000 seq=2048 global_batch=16 pp=2
ett: sweep: no field has several values, such as pp=1,2,4
?2

$ ett run $ETT_ROOT/examples/llemma_7b.lua tp=2 pp=two
ett: llemma_7b.lua...: option 'pp' must be a positive integer, got 'two'
?2
