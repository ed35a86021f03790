BEGIN TRANSACTION;
CREATE TABLE "_llm_migrations" (
   "name" TEXT PRIMARY KEY,
   "applied_at" TEXT
);
INSERT INTO "_llm_migrations" VALUES('m001_initial','2026-11-21 12:30:47.115341');
INSERT INTO "_llm_migrations" VALUES('m002_id_primary_key','2026-11-21 12:30:47.154201');
INSERT INTO "_llm_migrations" VALUES('m003_chat_id_foreign_key','2026-11-21 12:30:47.230298');
INSERT INTO "_llm_migrations" VALUES('m004_column_order','2026-11-21 12:30:47.262196');
INSERT INTO "_llm_migrations" VALUES('m004_drop_provider','2026-11-21 12:30:47.298201');
INSERT INTO "_llm_migrations" VALUES('m005_debug','2026-11-21 12:30:47.346505');
INSERT INTO "_llm_migrations" VALUES('m006_new_logs_table','2026-11-21 12:30:47.438212');
INSERT INTO "_llm_migrations" VALUES('m007_finish_logs_table','2026-11-21 12:30:47.479415');
INSERT INTO "_llm_migrations" VALUES('m008_reply_to_id_foreign_key','2026-11-21 12:30:47.528978');
INSERT INTO "_llm_migrations" VALUES('m008_fix_column_order_in_logs','2026-11-21 12:30:47.585817');
INSERT INTO "_llm_migrations" VALUES('m009_delete_logs_table_if_empty','2026-11-21 12:30:47.626224');
INSERT INTO "_llm_migrations" VALUES('m010_create_new_log_tables','2026-11-21 12:30:47.682146');
INSERT INTO "_llm_migrations" VALUES('m012_attachments_tables','2026-11-21 12:31:30.141359+00:00');
INSERT INTO "_llm_migrations" VALUES('m013_usage','2026-11-21 12:31:30.214287+00:00');
INSERT INTO "_llm_migrations" VALUES('m014_schemas','2026-11-21 12:31:30.296476+00:00');
INSERT INTO "_llm_migrations" VALUES('m015_fragments_tables','2026-11-21 12:31:30.301671+00:00');
INSERT INTO "_llm_migrations" VALUES('m016_fragments_table_pks','2026-11-21 12:31:30.330274+00:00');
INSERT INTO "_llm_migrations" VALUES('m017_tools_tables','2026-11-21 12:31:30.446239+00:00');
INSERT INTO "_llm_migrations" VALUES('m017_tools_plugin','2026-11-21 12:31:30.470872+00:00');
INSERT INTO "_llm_migrations" VALUES('m018_tool_instances','2026-11-21 12:31:30.510631+00:00');
INSERT INTO "_llm_migrations" VALUES('m019_resolved_model','2026-11-21 12:31:30.620579+00:00');
INSERT INTO "_llm_migrations" VALUES('m020_tool_results_attachments','2026-11-21 12:31:30.640871+00:00');
INSERT INTO "_llm_migrations" VALUES('m021_tool_results_exception','2026-11-21 12:31:30.664712+00:00');
INSERT INTO "_llm_migrations" VALUES('m022_response_reasoning','2026-11-21 12:31:30.686257+00:00');
INSERT INTO "_llm_migrations" VALUES('m023_message_store','2026-11-21 12:31:31.025714+00:00');
INSERT INTO "_llm_migrations" VALUES('m024_tool_instance_references','2026-11-21 12:31:31.148471+00:00');
INSERT INTO "_llm_migrations" VALUES('m025_turn_tools_instance_backfill','2026-11-21 12:31:31.471268+00:00');
INSERT INTO "_llm_migrations" VALUES('m026_message_tree_view','2026-11-21 12:31:33.079827+00:00');
INSERT INTO "_llm_migrations" VALUES('m027_turns_response_json','2026-11-21 12:31:33.188430+00:00');
CREATE TABLE "attachments" (
   "id" TEXT PRIMARY KEY,
   "type" TEXT,
   "path" TEXT,
   "url" TEXT,
   "content" BLOB
);
CREATE TABLE "conversations" (
   "id" TEXT PRIMARY KEY,
   "name" TEXT,
   "model" TEXT
);
INSERT INTO "conversations" VALUES('01m7z1cxza0mkpzs7kev8s8e29','Which [31mlamp[0m is lit?','echo-1');
INSERT INTO "conversations" VALUES('01m7z1cy1tstrxdrcyzpstw52q','A second chat','echo-1');
CREATE TABLE "fragment_aliases" (
   "alias" TEXT PRIMARY KEY,
   "fragment_id" INTEGER REFERENCES "fragments"("id")
);
CREATE TABLE "fragments" (
   "id" INTEGER PRIMARY KEY,
   "hash" TEXT,
   "content" TEXT,
   "datetime_utc" TEXT,
   "source" TEXT
);
CREATE TABLE "messages" (
   "hash" TEXT PRIMARY KEY,
   "parent_hash" TEXT REFERENCES "messages"("hash"),
   "role" TEXT,
   "provider_metadata" TEXT
);
INSERT INTO "messages" VALUES('b2:074dea0bd0259e0d5dca16426a45e4f5',NULL,'system',NULL);
INSERT INTO "messages" VALUES('b2:18b9758273987fd75cb350aadd24ff55','b2:074dea0bd0259e0d5dca16426a45e4f5','user',NULL);
INSERT INTO "messages" VALUES('b2:a268913e2bd4f96cb762777672b745e3','b2:18b9758273987fd75cb350aadd24ff55','assistant',NULL);
INSERT INTO "messages" VALUES('b2:5b1f6ccaf9f61877d6c8ffbe541ec6e5','b2:a268913e2bd4f96cb762777672b745e3','user',NULL);
INSERT INTO "messages" VALUES('b2:050c9f420a4508d656e65d9976007091','b2:5b1f6ccaf9f61877d6c8ffbe541ec6e5','assistant',NULL);
INSERT INTO "messages" VALUES('b2:af5c2f7eade9ab520738e5685438ea9f','b2:050c9f420a4508d656e65d9976007091','user',NULL);
INSERT INTO "messages" VALUES('b2:513a806c4f2b566b4d76359631418f94','b2:af5c2f7eade9ab520738e5685438ea9f','assistant',NULL);
CREATE TABLE "part_attachments" (
   "part_id" INTEGER REFERENCES "parts"("id"),
   "attachment_id" TEXT REFERENCES "attachments"("id"),
   "order" INTEGER,
   PRIMARY KEY ("part_id", "attachment_id", "order")
);
CREATE TABLE "part_fragments" (
   "part_id" INTEGER REFERENCES "parts"("id"),
   "fragment_id" INTEGER REFERENCES "fragments"("id"),
   "order" INTEGER,
   PRIMARY KEY ("part_id", "fragment_id", "order")
);
CREATE TABLE "parts" (
   "id" INTEGER PRIMARY KEY,
   "message_hash" TEXT REFERENCES "messages"("hash"),
   "position" INTEGER,
   "type" TEXT,
   "tool_name" TEXT,
   "text" TEXT,
   "payload" TEXT
);
INSERT INTO "parts" VALUES(1,'b2:074dea0bd0259e0d5dca16426a45e4f5',0,'text',NULL,'Be brief.',NULL);
INSERT INTO "parts" VALUES(2,'b2:18b9758273987fd75cb350aadd24ff55',0,'text',NULL,'Which [31mlamp[0m is lit?',NULL);
INSERT INTO "parts" VALUES(3,'b2:a268913e2bd4f96cb762777672b745e3',0,'text',NULL,'You said: Which [31mlamp[0m is lit?',NULL);
INSERT INTO "parts" VALUES(4,'b2:5b1f6ccaf9f61877d6c8ffbe541ec6e5',0,'text',NULL,'And <b>now</b>?',NULL);
INSERT INTO "parts" VALUES(5,'b2:050c9f420a4508d656e65d9976007091',0,'text',NULL,'You said: And <b>now</b>?',NULL);
INSERT INTO "parts" VALUES(6,'b2:af5c2f7eade9ab520738e5685438ea9f',0,'text',NULL,'Gone on with a newer llm',NULL);
INSERT INTO "parts" VALUES(7,'b2:513a806c4f2b566b4d76359631418f94',0,'text',NULL,'You said: Gone on with a newer llm',NULL);
CREATE TABLE "prompt_attachments" (
   "response_id" TEXT REFERENCES "responses"("id"),
   "attachment_id" TEXT REFERENCES "attachments"("id"),
   "order" INTEGER,
   PRIMARY KEY ("response_id", "attachment_id")
);
CREATE TABLE "prompt_fragments" (
   "response_id" TEXT REFERENCES "responses"("id"),
   "fragment_id" INTEGER REFERENCES "fragments"("id"),
   "order" INTEGER,
   PRIMARY KEY ("response_id", "fragment_id", "order")
);
CREATE TABLE "responses" (
   "id" TEXT PRIMARY KEY,
   "model" TEXT,
   "prompt" TEXT,
   "system" TEXT,
   "prompt_json" TEXT,
   "options_json" TEXT,
   "response" TEXT,
   "response_json" TEXT,
   "conversation_id" TEXT REFERENCES "conversations"("id"),
   "duration_ms" INTEGER,
   "datetime_utc" TEXT,
   "input_tokens" INTEGER,
   "output_tokens" INTEGER,
   "token_details" TEXT,
   "schema_id" TEXT REFERENCES "schemas"("id")
, "resolved_model" TEXT, "reasoning" TEXT);
INSERT INTO "responses" VALUES('01m7z1cxzy92y08vhbyyfmrakt','echo-1','Which [31mlamp[0m is lit?','Be brief.',NULL,'{}','You said: Which [31mlamp[0m is lit?',NULL,'01m7z1cxza0mkpzs7kev8s8e29',0,'2026-11-21T12:30:47.787189',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "responses" VALUES('01m7z1cy0v82jn83qh95q4k1px','echo-1','And <b>now</b>?',NULL,NULL,'{}','You said: And <b>now</b>?',NULL,'01m7z1cxza0mkpzs7kev8s8e29',0,'2026-11-21T12:30:47.834754',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "responses" VALUES('01m7z1cy28vdv5xz1mh1mqca73','echo-1','A second chat',NULL,NULL,'{}','You said: A second chat',NULL,'01m7z1cy1tstrxdrcyzpstw52q',0,'2026-11-21T12:30:47.866247',NULL,NULL,NULL,NULL,NULL,NULL);
CREATE TABLE "schemas" (
   "id" TEXT PRIMARY KEY,
   "content" TEXT
);
CREATE TABLE "system_fragments" (
   "response_id" TEXT REFERENCES "responses"("id"),
   "fragment_id" INTEGER REFERENCES "fragments"("id"),
   "order" INTEGER,
   PRIMARY KEY ("response_id", "fragment_id", "order")
);
CREATE TABLE "threads" (
   "id" TEXT PRIMARY KEY,
   "name" TEXT,
   "tip_message_hash" TEXT REFERENCES "messages"("hash"),
   "forked_from" TEXT REFERENCES "threads"("id"),
   "datetime_utc" TEXT
);
INSERT INTO "threads" VALUES('01m7z1cxza0mkpzs7kev8s8e29','Gone on with a newer llm','b2:513a806c4f2b566b4d76359631418f94',NULL,'2026-11-21 12:31:33.319555+00:00');
CREATE TABLE "tool_calls" (
   "id" INTEGER PRIMARY KEY,
   "response_id" TEXT REFERENCES "responses"("id"),
   "tool_id" INTEGER REFERENCES "tools"("id"),
   "name" TEXT,
   "arguments" TEXT,
   "tool_call_id" TEXT
);
CREATE TABLE "tool_instances" (
   "id" INTEGER PRIMARY KEY,
   "plugin" TEXT,
   "name" TEXT,
   "arguments" TEXT
);
CREATE TABLE "tool_instantiations" (
   "turn_id" TEXT REFERENCES "turns"("id"),
   "tool_call_id" TEXT,
   "instance_id" INTEGER REFERENCES "tool_instances"("id"),
   PRIMARY KEY ("turn_id", "tool_call_id")
);
CREATE TABLE "tool_responses" (
   "tool_id" INTEGER REFERENCES "tools"("id"),
   "response_id" TEXT REFERENCES "responses"("id"),
   PRIMARY KEY ("tool_id", "response_id")
);
CREATE TABLE "tool_results" (
   "id" INTEGER PRIMARY KEY,
   "response_id" TEXT REFERENCES "responses"("id"),
   "tool_id" INTEGER REFERENCES "tools"("id"),
   "name" TEXT,
   "output" TEXT,
   "tool_call_id" TEXT,
   "instance_id" INTEGER REFERENCES "tool_instances"("id")
, "exception" TEXT);
CREATE TABLE "tool_results_attachments" (
   "tool_result_id" INTEGER REFERENCES "tool_results"("id"),
   "attachment_id" TEXT REFERENCES "attachments"("id"),
   "order" INTEGER,
   PRIMARY KEY ("tool_result_id", "attachment_id")
);
CREATE TABLE "tools" (
   "id" INTEGER PRIMARY KEY,
   "hash" TEXT,
   "name" TEXT,
   "description" TEXT,
   "input_schema" TEXT
, "plugin" TEXT);
CREATE TABLE "turn_fragments" (
   "turn_id" TEXT REFERENCES "turns"("id"),
   "fragment_id" INTEGER REFERENCES "fragments"("id"),
   "order" INTEGER,
   "kind" TEXT,
   PRIMARY KEY ("turn_id", "fragment_id", "kind", "order")
);
CREATE TABLE "turn_search" (
   "id" INTEGER PRIMARY KEY,
   "turn_id" TEXT REFERENCES "turns"("id"),
   "prompt" TEXT,
   "response" TEXT
);
INSERT INTO "turn_search" VALUES(1,'01m7z1eae4c2hsa701v69ksa3m','Gone on with a newer llm','You said: Gone on with a newer llm');
CREATE TABLE "turn_tools" (
   "turn_id" TEXT REFERENCES "turns"("id"),
   "tool_id" INTEGER REFERENCES "tools"("id"),
   "instance_id" INTEGER REFERENCES "tool_instances"("id"),
   PRIMARY KEY ("turn_id", "tool_id")
);
CREATE TABLE "turns" (
   "id" TEXT PRIMARY KEY,
   "thread_id" TEXT REFERENCES "threads"("id"),
   "parent_message_hash" TEXT REFERENCES "messages"("hash"),
   "tip_message_hash" TEXT REFERENCES "messages"("hash"),
   "model" TEXT,
   "resolved_model" TEXT,
   "options_json" TEXT,
   "schema_id" TEXT REFERENCES "schemas"("id"),
   "input_tokens" INTEGER,
   "output_tokens" INTEGER,
   "token_details" TEXT,
   "duration_ms" INTEGER,
   "datetime_utc" TEXT
, "response_json" TEXT);
INSERT INTO "turns" VALUES('01m7z1eae4c2hsa701v69ksa3m','01m7z1cxza0mkpzs7kev8s8e29','b2:af5c2f7eade9ab520738e5685438ea9f','b2:513a806c4f2b566b4d76359631418f94','echo-1',NULL,NULL,NULL,NULL,NULL,NULL,0,'2026-11-21T12:31:33.316082+00:00',NULL);
CREATE UNIQUE INDEX "idx_fragments_hash"
    ON "fragments" ("hash");
CREATE UNIQUE INDEX "idx_tools_hash"
    ON "tools" ("hash");
CREATE INDEX "idx_messages_parent_hash"
    ON "messages" ("parent_hash");
CREATE UNIQUE INDEX "idx_parts_message_hash_position"
    ON "parts" ("message_hash", "position");
CREATE INDEX "idx_part_fragments_fragment_id"
    ON "part_fragments" ("fragment_id");
CREATE INDEX "idx_turns_thread_id"
    ON "turns" ("thread_id");
CREATE INDEX "idx_turn_fragments_fragment_id"
    ON "turn_fragments" ("fragment_id");
CREATE UNIQUE INDEX "idx_turn_search_turn_id"
    ON "turn_search" ("turn_id");
COMMIT;
