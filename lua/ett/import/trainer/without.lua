--- Fields and sections of trainers' files that do not change the step, that the estimate always includes, or that
--- describe the model. all: DeepSpeed's (deepspeed/runtime/config.py) and torchtitan's
--- (torchtitan/config/job_config.py). neox: GPT-NeoX' (configs/neox_arguments.md). nanotron: nanotron's
--- (config/config.py). accelerate: Accelerate's (commands/config/config_args.py). transformers: those of Transformers
--- (training_args.py), TRL, LLaMA-Factory and Axolotl.
local function set(text)
  local names = {}
  for name in text:gmatch "%S+" do names[name] = true end
  return names
end

local without = {}

without.all = set [[
  allgather_bucket_size allgather_partitions contiguous_gradients determinism_check early_stop
  ignore_unused_parameters load_from_fp32_weights preserve_rng_state round_robin_gradients
  stage3_gather_16bit_weights_on_model_save stage3_max_live_parameters stage3_max_reuse_distance
  stage3_param_persistence_threshold stage3_prefetch_bucket_size sub_group_size

  aio autotuning checkpoint comet comms_config comms_logger csv_monitor dataloader_drop_last dump_state
  flops_profiler gradient_predivide_factor log_level memory_breakdown monitor_config nebula prescale_gradients
  scheduler steps_per_print tensorboard timers vocabulary_size wall_clock_breakdown wandb
  zero_allow_untested_optimizer zero_force_ds_cpu_optimizer

  auto_cast check_grad_overflow consecutive_hysteresis hysteresis immediate_grad_update initial_scale_power
  legacy_fusion load_balance_coeff loss_scale loss_scale_window min_loss_scale params preset_model

  checkpoint comm debug experimental float8 job lr_scheduler memory_estimation metrics mx profiling
  quantize.dense.float8 quantize.dense.mx quantize.grouped_mm.float8 quantize.grouped_mm.mx quantize.linear.float8
  quantize.linear.mx quantize.moe.float8 quantize.moe.mx training.dataloader validation.dataloader

  backend beta1 beta2 dataset dataset_path deterministic emulate eps filter_fqns force_recompute_fp8_weight_in_bwd
  gc_debug gc_freq hf_assets_path lr mxfp8_dim1_cast_kernel_choice
  precompute_float8_dynamic_scale_for_fsdp print_after_conversion recipe_name seed steps tokenizer_path
  visualize_memory_budget_pareto weight_decay]]

without.neox = set [[
  activation apply_query_key_layer_scaling attention_dropout attention_softmax_in_fp32 base_shapes_file batch_size
  bias_dropout_fusion bias_gelu_fusion char_level_ppl checkpoint_factor checkpoint_scale
  checkpoint_validation_with_forward_pass clip_grad config_files data_impl data_path deepspeed
  deepspeed_activation_checkpointing deepspeed_extra_args deepspeed_mpi deepspeed_slurm distributed_backend do_test
  do_train do_valid eod_mask_loss fp16 eval_interval eval_iters eval_tasks exit_interval extra_save_iters finetune
  fp16_lm_cross_entropy gmlp_attn_dim gpt_j_residual gpt_j_tied gradient_noise_scale_n_batches hidden_dropout
  hostfile include init_method init_method_std intermediate_size iteration keep_last_n_checkpoints label_data_paths
  launcher layernorm_epsilon load local_rank log_dir log_grad_norm log_interval log_optimizer_states log_param_norm
  loss_scale lr lr_decay_fraction lr_decay_iters lr_decay_style make_vocab_size_divisible_by master_port
  max_position_embeddings merge_file min_lr min_scale mlp_type mmap_warmup moe_top_k no_load_optim no_load_rng
  no_save_optim no_save_rng no_ssh_check no_weight_tying norm num_kv_heads num_samples num_workers onnx_safe
  opt_pos_emb_offset optimizer_type output_layer_init_method output_layer_parallelism padded_vocab_size pos_emb
  profile_backward rank recompute rms_norm_epsilon rotary_emb_base rotary_emb_fraction rotary_ndims rotary_pct
  rotary_save_freqs_buffer rpe_max_distance rpe_num_buckets s3_chunk_size s3_path sample_input_file
  sample_output_file save save_base_shapes save_interval save_iters scaled_masked_softmax_fusion
  scaled_upper_triang_masked_softmax_fusion scalenorm_epsilon short_seq_prob split synchronize_each_layer
  temperature tensorboard_dir test_data_paths test_data_weights text_gen_type tokenizer_type top_k top_p
  train_data_paths train_data_weights train_iters use_bias_in_attn_linear use_bias_in_mlp use_bias_in_norms
  use_cpu_initialization use_shared_fs use_wandb user_script valid_data_paths valid_data_weights vocab_file
  wandb_group wandb_host wandb_init_all_ranks wandb_project wandb_team warmup weight_by_num_documents
  weighted_sampler_alpha world_size]]

without.nanotron = set [[
  init_method learning_rate_scheduler limit_test_batches limit_val_batches make_vocab_size_divisible_by
  optimizer_factory train_steps val_check_interval weight_decay_exclude_named_params]]

without.accelerate = set [[
  command_file commands compute_environment debug deepspeed_multinode_launcher downcast_bf16 enable_cpu_affinity
  fsdp_auto_wrap_policy fsdp_backward_prefetch_policy fsdp_cpu_ram_efficient_loading fsdp_min_num_params
  fsdp_state_dict_type fsdp_sync_module_states fsdp_transformer_layer_cls_to_wrap fsdp_use_orig_params gpu_ids
  ipex_config machine_rank main_process_ip main_process_port main_training_function num_machines mpirun_config
  rdzv_backend same_network tpu_env tpu_name tpu_use_cluster tpu_use_sudo tpu_vm tpu_zone use_cpu zero3_init_flag
  zero3_save_16bit_model]]

without.transformers = set [[
  cpu_ram_efficient_loading limit_all_gathers fsdp_limit_all_gathers state_dict_type fsdp_state_dict_type
  sync_module_states fsdp_sync_module_states transformer_layer_cls_to_wrap fsdp_transformer_layer_cls_to_wrap
  use_orig_params fsdp_use_orig_params fsdp_cpu_ram_efficient_loading mixed_precision_policy min_num_params
  experts_implementation flash_attention gradient_checkpointing_kwargs loss_watchdog_patience
  loss_watchdog_threshold lora_model_dir min_sample_len pad_to_sequence_len tf32 use_cache
  include_num_input_tokens_seen ddp_find_unused_parameters accelerator_config adam_beta1 adam_beta2 adam_epsilon
  add_generation_prompt auto_find_batch_size base_model base_model_config batch_size bench bnb_4bit_quant_type
  bnb_4bit_compute_dtype bnb_4bit_quant_storage quantization_type
  chat_template chat_template_jinja dataset dataset_dir dataset_exact_deduplication dataset_name dataset_num_proc
  dataset_prepared_path dataset_processes dataset_shuffle_seed dataset_test_split dataset_text_field
  dataset_train_split datasets dataloader_drop_last dataloader_num_workers dataloader_pin_memory
  dataloader_prefetch_factor ddp_timeout debug do_eval do_predict do_train eos_token eval_batch_size eval_dataset
  eval_max_new_tokens eval_num_proc eval_on_start eval_sample_packing eval_steps eval_strategy eval_table_size
  evals_per_epoch evaluation_strategy freeze_multi_modal_projector freeze_vision_tower gpus_per_node
  greater_is_better group_by_length hf_token hf_use_auth_token hub_model_id hub_strategy hub_token image_max_pixels
  is_falcon_derived_model is_llama_derived_model is_mistral_derived_model learning_rate load_best_model_at_end
  local_rank log_level logging_dir logging_first_step logging_nan_inf_filter logging_steps logging_strategy
  lora_alpha lora_fan_in_fan_out lora_modules_to_save lora_out_dir lora_target_linear loraplus_lr_ratio
  lr_scheduler lr_scheduler_kwargs lr_scheduler_type max_samples max_steps metric_for_best_model min_lr
  mlflow_experiment_name mlflow_tracking_uri model_config model_name_or_path model_revision model_type
  dataset_config dataset_configs hub_always_push pretraining_dataset reinit_weights freeze_trainable_modules
  neftune_noise_alpha num_epochs num_train_epochs optim_args output_dir overwrite_cache overwrite_output_dir
  peft_task_type per_device_eval_batch_size plot_loss predict_with_generate preprocessing_num_workers push_to_hub
  rank0_only remove_unused_columns report_to resume_from_checkpoint revision_of_model rl run_name s2_attention
  sample_packing_bin_size sample_packing_group_size save_first_step save_only_model save_safetensors save_steps
  save_strategy save_total_limit saves_per_epoch seed shuffle_merged_datasets skip_prepare_dataset special_tokens
  strict streaming template test_datasets tokenized_path tokenizer_config tokenizer_name_or_path
  tokenizer_type tokenizer_use_fast tokens torch_dtype dtype train_on_input train_on_inputs trust_remote_code
  use_auth_token use_fast_tokenizer use_wandb val_set_size val_size video_max_pixels wandb_entity wandb_log_model
  wandb_mode wandb_name wandb_project wandb_run_id wandb_watch warmup_ratio warmup_steps weight_decay
  xformers_attention]]

return without
