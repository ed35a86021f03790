BEGIN TRANSACTION;
CREATE TABLE "_llm_migrations" (
   "name" TEXT PRIMARY KEY,
   "applied_at" TEXT
);
INSERT INTO "_llm_migrations" VALUES('m001_initial','2026-11-21 12:30:48.602186+00:00');
INSERT INTO "_llm_migrations" VALUES('m002_id_primary_key','2026-11-21 12:30:48.642207+00:00');
INSERT INTO "_llm_migrations" VALUES('m003_chat_id_foreign_key','2026-11-21 12:30:48.722324+00:00');
INSERT INTO "_llm_migrations" VALUES('m004_column_order','2026-11-21 12:30:48.762232+00:00');
INSERT INTO "_llm_migrations" VALUES('m004_drop_provider','2026-11-21 12:30:48.802244+00:00');
INSERT INTO "_llm_migrations" VALUES('m005_debug','2026-11-21 12:30:48.858241+00:00');
INSERT INTO "_llm_migrations" VALUES('m006_new_logs_table','2026-11-21 12:30:48.927195+00:00');
INSERT INTO "_llm_migrations" VALUES('m007_finish_logs_table','2026-11-21 12:30:48.971394+00:00');
INSERT INTO "_llm_migrations" VALUES('m008_reply_to_id_foreign_key','2026-11-21 12:30:49.014081+00:00');
INSERT INTO "_llm_migrations" VALUES('m008_fix_column_order_in_logs','2026-11-21 12:30:49.050203+00:00');
INSERT INTO "_llm_migrations" VALUES('m009_delete_logs_table_if_empty','2026-11-21 12:30:49.076432+00:00');
INSERT INTO "_llm_migrations" VALUES('m010_create_new_log_tables','2026-11-21 12:30:49.171329+00:00');
INSERT INTO "_llm_migrations" VALUES('m012_attachments_tables','2026-11-21 12:30:49.302198+00:00');
INSERT INTO "_llm_migrations" VALUES('m013_usage','2026-11-21 12:30:49.370240+00:00');
INSERT INTO "_llm_migrations" VALUES('m014_schemas','2026-11-21 12:30:49.526182+00:00');
INSERT INTO "_llm_migrations" VALUES('m015_fragments_tables','2026-11-21 12:30:49.610172+00:00');
INSERT INTO "_llm_migrations" VALUES('m016_fragments_table_pks','2026-11-21 12:30:49.666254+00:00');
INSERT INTO "_llm_migrations" VALUES('m017_tools_tables','2026-11-21 12:30:49.722468+00:00');
INSERT INTO "_llm_migrations" VALUES('m017_tools_plugin','2026-11-21 12:30:49.746227+00:00');
INSERT INTO "_llm_migrations" VALUES('m018_tool_instances','2026-11-21 12:30:49.841138+00:00');
INSERT INTO "_llm_migrations" VALUES('m019_resolved_model','2026-11-21 12:30:49.846105+00:00');
INSERT INTO "_llm_migrations" VALUES('m020_tool_results_attachments','2026-11-21 12:30:49.850347+00:00');
INSERT INTO "_llm_migrations" VALUES('m021_tool_results_exception','2026-11-21 12:30:49.854713+00:00');
INSERT INTO "_llm_migrations" VALUES('m022_response_reasoning','2026-11-21 12:30:49.858369+00:00');
INSERT INTO "_llm_migrations" VALUES('m023_message_store','2026-11-21 12:30:50.178182+00:00');
INSERT INTO "_llm_migrations" VALUES('m024_tool_instance_references','2026-11-21 12:30:50.316079+00:00');
INSERT INTO "_llm_migrations" VALUES('m025_turn_tools_instance_backfill','2026-11-21 12:30:50.330653+00:00');
INSERT INTO "_llm_migrations" VALUES('m026_message_tree_view','2026-11-21 12:30:50.362574+00:00');
INSERT INTO "_llm_migrations" VALUES('m027_turns_response_json','2026-11-21 12:30:50.395448+00:00');
CREATE TABLE "attachments" (
   "id" TEXT PRIMARY KEY,
   "type" TEXT,
   "path" TEXT,
   "url" TEXT,
   "content" BLOB
);
INSERT INTO "attachments" VALUES('0eeb93c105541e8910effe271bf99ecfe4fd4f02c031241f7be1c66c648414f5','image/png',NULL,NULL,X'89504E472E2E2E2E');
CREATE TABLE "conversations" (
   "id" TEXT PRIMARY KEY,
   "name" TEXT,
   "model" TEXT
);
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
INSERT INTO "fragments" VALUES(1,'818c67677f736e9770a9eafa663abd205f60a48902bbe041103a02f718ac1309','A long fragment about lighthouses.','2026-11-21 12:30:50',NULL);
CREATE TABLE "messages" (
   "hash" TEXT PRIMARY KEY,
   "parent_hash" TEXT REFERENCES "messages"("hash"),
   "role" TEXT,
   "provider_metadata" TEXT
);
INSERT INTO "messages" VALUES('b2:074dea0bd0259e0d5dca16426a45e4f5',NULL,'system',NULL);
INSERT INTO "messages" VALUES('b2:18b9758273987fd75cb350aadd24ff55','b2:074dea0bd0259e0d5dca16426a45e4f5','user',NULL);
INSERT INTO "messages" VALUES('b2:a268913e2bd4f96cb762777672b745e3','b2:18b9758273987fd75cb350aadd24ff55','assistant',NULL);
INSERT INTO "messages" VALUES('b2:6c18d8cd8b13a1e5c9e5afde03b7c9dd','b2:a268913e2bd4f96cb762777672b745e3','user',NULL);
INSERT INTO "messages" VALUES('b2:4b687445ee33a56ff0ce1219794ff514','b2:6c18d8cd8b13a1e5c9e5afde03b7c9dd','assistant',NULL);
INSERT INTO "messages" VALUES('b2:ecca988af6127b1248d748d6d362b855',NULL,'user',NULL);
INSERT INTO "messages" VALUES('b2:bf68945d72d16af11e7a887e215ddb09','b2:ecca988af6127b1248d748d6d362b855','assistant',NULL);
INSERT INTO "messages" VALUES('b2:98056d890563913e652a54733d1f4688','b2:a268913e2bd4f96cb762777672b745e3','user',NULL);
INSERT INTO "messages" VALUES('b2:c16dacffdb2b92d1f8556c1060f68b36','b2:98056d890563913e652a54733d1f4688','assistant',NULL);
CREATE TABLE "part_attachments" (
   "part_id" INTEGER REFERENCES "parts"("id"),
   "attachment_id" TEXT REFERENCES "attachments"("id"),
   "order" INTEGER,
   PRIMARY KEY ("part_id", "attachment_id", "order")
);
INSERT INTO "part_attachments" VALUES(5,'0eeb93c105541e8910effe271bf99ecfe4fd4f02c031241f7be1c66c648414f5',0);
CREATE TABLE "part_fragments" (
   "part_id" INTEGER REFERENCES "parts"("id"),
   "fragment_id" INTEGER REFERENCES "fragments"("id"),
   "order" INTEGER,
   PRIMARY KEY ("part_id", "fragment_id", "order")
);
INSERT INTO "part_fragments" VALUES(4,1,0);
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
INSERT INTO "parts" VALUES(4,'b2:6c18d8cd8b13a1e5c9e5afde03b7c9dd',0,'text',NULL,NULL,'{"text_ref": [{"fragment": 1}, {"literal": "\nAnd <b>now</b>?"}]}');
INSERT INTO "parts" VALUES(5,'b2:6c18d8cd8b13a1e5c9e5afde03b7c9dd',1,'attachment',NULL,NULL,'{"attachment": {"id": "0eeb93c105541e8910effe271bf99ecfe4fd4f02c031241f7be1c66c648414f5"}}');
INSERT INTO "parts" VALUES(6,'b2:4b687445ee33a56ff0ce1219794ff514',0,'text',NULL,'You said: A long fragment about lighthouses.
And <b>now</b>?',NULL);
INSERT INTO "parts" VALUES(7,'b2:ecca988af6127b1248d748d6d362b855',0,'text',NULL,'A second chat',NULL);
INSERT INTO "parts" VALUES(8,'b2:bf68945d72d16af11e7a887e215ddb09',0,'text',NULL,'You said: A second chat',NULL);
INSERT INTO "parts" VALUES(9,'b2:98056d890563913e652a54733d1f4688',0,'text',NULL,'And another way?',NULL);
INSERT INTO "parts" VALUES(10,'b2:c16dacffdb2b92d1f8556c1060f68b36',0,'text',NULL,'You said: And another way?',NULL);
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
INSERT INTO "threads" VALUES('01m7z1d0haqtsy7nh45g40wmrx','Which [31mlamp[0m is lit?','b2:c16dacffdb2b92d1f8556c1060f68b36',NULL,'2026-11-21 12:30:50.413253+00:00');
INSERT INTO "threads" VALUES('01m7z1d0jkthgpgcdnxq81xbeg','A second chat','b2:bf68945d72d16af11e7a887e215ddb09',NULL,'2026-11-21 12:30:50.452440+00:00');
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
INSERT INTO "turn_fragments" VALUES('01m7z1d0j0fsg8y07p4b7yndaq',1,0,'prompt');
CREATE TABLE "turn_search" (
   "id" INTEGER PRIMARY KEY,
   "turn_id" TEXT REFERENCES "turns"("id"),
   "prompt" TEXT,
   "response" TEXT
);
INSERT INTO "turn_search" VALUES(1,'01m7z1d0hb30v40s9krrbkqjwb','Which [31mlamp[0m is lit?','You said: Which [31mlamp[0m is lit?');
INSERT INTO "turn_search" VALUES(2,'01m7z1d0j0fsg8y07p4b7yndaq','
And <b>now</b>?','You said: A long fragment about lighthouses.
And <b>now</b>?');
INSERT INTO "turn_search" VALUES(3,'01m7z1d0jmppeymzqv9fy50pny','A second chat','You said: A second chat');
INSERT INTO "turn_search" VALUES(4,'01m7z1d0k7jwjxdet8c4j5h05w','And another way?','You said: And another way?');
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
INSERT INTO "turns" VALUES('01m7z1d0hb30v40s9krrbkqjwb','01m7z1d0haqtsy7nh45g40wmrx','b2:18b9758273987fd75cb350aadd24ff55','b2:a268913e2bd4f96cb762777672b745e3','echo-1',NULL,NULL,NULL,NULL,NULL,NULL,0,'2026-11-21T12:30:50.411505+00:00',NULL);
INSERT INTO "turns" VALUES('01m7z1d0j0fsg8y07p4b7yndaq','01m7z1d0haqtsy7nh45g40wmrx','b2:6c18d8cd8b13a1e5c9e5afde03b7c9dd','b2:4b687445ee33a56ff0ce1219794ff514','echo-1',NULL,NULL,NULL,NULL,NULL,NULL,0,'2026-11-21T12:30:50.433043+00:00',NULL);
INSERT INTO "turns" VALUES('01m7z1d0jmppeymzqv9fy50pny','01m7z1d0jkthgpgcdnxq81xbeg','b2:ecca988af6127b1248d748d6d362b855','b2:bf68945d72d16af11e7a887e215ddb09','echo-1',NULL,NULL,NULL,NULL,NULL,NULL,0,'2026-11-21T12:30:50.452074+00:00',NULL);
INSERT INTO "turns" VALUES('01m7z1d0k7jwjxdet8c4j5h05w','01m7z1d0haqtsy7nh45g40wmrx','b2:98056d890563913e652a54733d1f4688','b2:c16dacffdb2b92d1f8556c1060f68b36','echo-1',NULL,NULL,NULL,NULL,NULL,NULL,0,'2026-11-21T12:30:50.471874+00:00',NULL);
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
