CREATE TABLE kernels(start,end,agent_type_index,queue_id,stream_id,stack_id,pid,tid,name,grid);
INSERT INTO kernels VALUES(1010,1110,0,1,0,11,42,43,'gemm',64),(1020,1220,1,2,NULL,12,42,43,'nccl',8);
CREATE TABLE calls(start,end,category,name,stack_id,pid,tid,extdata);
INSERT INTO calls VALUES(1000,1004,'HIP_RUNTIME_API','hipLaunchKernel',11,42,43,'{}'),
 (990,1400,'MARKER_CORE_RANGE_API','roctxThreadRangeA',13,42,43,'{"message":"step 1"}');
CREATE VIEW regions AS SELECT * FROM calls;
CREATE TABLE memory_copies(start,end,dst_agent_type,dst_agent_type_index,src_agent_type,src_agent_type_index,
 queue_id,stream_id,stack_id,pid,tid,name,size);
INSERT INTO memory_copies VALUES(1300,1350,'GPU',1,'CPU',0,1,0,14,42,43,'HOST_TO_DEVICE',4096);
