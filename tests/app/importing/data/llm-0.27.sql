BEGIN TRANSACTION;
CREATE TABLE "_llm_migrations" (
   "name" TEXT PRIMARY KEY,
   "applied_at" TEXT
);
INSERT INTO "_llm_migrations" VALUES('m001_initial','2026-11-21 12:32:06.402237+00:00');
INSERT INTO "_llm_migrations" VALUES('m002_id_primary_key','2026-11-21 12:32:06.422277+00:00');
INSERT INTO "_llm_migrations" VALUES('m003_chat_id_foreign_key','2026-11-21 12:32:06.518428+00:00');
INSERT INTO "_llm_migrations" VALUES('m004_column_order','2026-11-21 12:32:06.561731+00:00');
INSERT INTO "_llm_migrations" VALUES('m004_drop_provider','2026-11-21 12:32:06.602317+00:00');
INSERT INTO "_llm_migrations" VALUES('m005_debug','2026-11-21 12:32:06.661113+00:00');
INSERT INTO "_llm_migrations" VALUES('m006_new_logs_table','2026-11-21 12:32:06.906320+00:00');
INSERT INTO "_llm_migrations" VALUES('m007_finish_logs_table','2026-11-21 12:32:07.012276+00:00');
INSERT INTO "_llm_migrations" VALUES('m008_reply_to_id_foreign_key','2026-11-21 12:32:07.098710+00:00');
INSERT INTO "_llm_migrations" VALUES('m008_fix_column_order_in_logs','2026-11-21 12:32:07.104011+00:00');
INSERT INTO "_llm_migrations" VALUES('m009_delete_logs_table_if_empty','2026-11-21 12:32:07.110164+00:00');
INSERT INTO "_llm_migrations" VALUES('m010_create_new_log_tables','2026-11-21 12:32:07.158201+00:00');
INSERT INTO "_llm_migrations" VALUES('m012_attachments_tables','2026-11-21 12:32:07.294129+00:00');
INSERT INTO "_llm_migrations" VALUES('m013_usage','2026-11-21 12:32:07.338177+00:00');
INSERT INTO "_llm_migrations" VALUES('m014_schemas','2026-11-21 12:32:07.573123+00:00');
INSERT INTO "_llm_migrations" VALUES('m015_fragments_tables','2026-11-21 12:32:07.614234+00:00');
INSERT INTO "_llm_migrations" VALUES('m016_fragments_table_pks','2026-11-21 12:32:07.638316+00:00');
INSERT INTO "_llm_migrations" VALUES('m017_tools_tables','2026-11-21 12:32:07.675538+00:00');
INSERT INTO "_llm_migrations" VALUES('m017_tools_plugin','2026-11-21 12:32:07.683338+00:00');
INSERT INTO "_llm_migrations" VALUES('m018_tool_instances','2026-11-21 12:32:07.725306+00:00');
INSERT INTO "_llm_migrations" VALUES('m019_resolved_model','2026-11-21 12:32:07.746309+00:00');
INSERT INTO "_llm_migrations" VALUES('m020_tool_results_attachments','2026-11-21 12:32:07.770158+00:00');
INSERT INTO "_llm_migrations" VALUES('m021_tool_results_exception','2026-11-21 12:32:07.788053+00:00');
CREATE TABLE "attachments" (
   "id" TEXT PRIMARY KEY,
   "type" TEXT,
   "path" TEXT,
   "url" TEXT,
   "content" BLOB
);
INSERT INTO "attachments" VALUES('0f4636c78f65d3639ece5a064b5ae753e3408614a14fb18ab4d7540d2c248543','image/png',NULL,NULL,X'89504E47');
CREATE TABLE "conversations" (
   "id" TEXT PRIMARY KEY,
   "name" TEXT,
   "model" TEXT
);
INSERT INTO "conversations" VALUES('01m7z1fc3jrg88szyexas3w54t','Fragment one. Fragment two. Rea…','echo-1');
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
INSERT INTO "fragments" VALUES(1,'2f98b64771abb4ddce3cc76e4f7da553c8ef29c1f2c942027cbf52fb7d6ef11f','Fragment one.','2026-11-21 12:32:07',NULL);
INSERT INTO "fragments" VALUES(2,'e2dc865006e6307c1106898ed01182f7d22c9dfab503cd5361fe19c36424b2a4','Fragment two.','2026-11-21 12:32:07',NULL);
INSERT INTO "fragments" VALUES(3,'7d8ff92bbbe70d09081cd7231caf2e214a027c31bc645f2ee8065038b38a334e','Rules of the house.','2026-11-21 12:32:07',NULL);
CREATE TABLE "prompt_attachments" (
   "response_id" TEXT REFERENCES "responses"("id"),
   "attachment_id" TEXT REFERENCES "attachments"("id"),
   "order" INTEGER,
   PRIMARY KEY ("response_id", "attachment_id")
);
INSERT INTO "prompt_attachments" VALUES('01m7z1fc3jrg88szyexas3w54v','0f4636c78f65d3639ece5a064b5ae753e3408614a14fb18ab4d7540d2c248543',0);
CREATE TABLE "prompt_fragments" (
   "response_id" TEXT REFERENCES "responses"("id"),
   "fragment_id" INTEGER REFERENCES "fragments"("id"),
   "order" INTEGER,
   PRIMARY KEY ("response_id", "fragment_id", "order")
);
INSERT INTO "prompt_fragments" VALUES('01m7z1fc3jrg88szyexas3w54v',1,0);
INSERT INTO "prompt_fragments" VALUES('01m7z1fc3jrg88szyexas3w54v',2,1);
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
, "resolved_model" TEXT);
INSERT INTO "responses" VALUES('01m7z1fc3jrg88szyexas3w54v','echo-1','Read this','Be brief.',NULL,'{}','You said: Fragment one.
Fragment two.
Read this []',NULL,'01m7z1fc3jrg88szyexas3w54t',0,'2026-11-21T12:32:07.794404+00:00',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "responses" VALUES('01m7z1fc8cj2994603a9ves800','echo-1','What is 1+2?',NULL,NULL,'{}','',NULL,'01m7z1fc3jrg88szyexas3w54t',0,'2026-11-21T12:32:07.948366+00:00',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "responses" VALUES('01m7z1fcajjbaeb0wwp7dwgk5c','echo-1','',NULL,NULL,'{}','You said:  [''3'']',NULL,'01m7z1fc3jrg88szyexas3w54t',0,'2026-11-21T12:32:08.018385+00:00',NULL,NULL,NULL,NULL,NULL);
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
INSERT INTO "system_fragments" VALUES('01m7z1fc3jrg88szyexas3w54v',3,0);
CREATE TABLE "tool_calls" (
   "id" INTEGER PRIMARY KEY,
   "response_id" TEXT REFERENCES "responses"("id"),
   "tool_id" INTEGER REFERENCES "tools"("id"),
   "name" TEXT,
   "arguments" TEXT,
   "tool_call_id" TEXT
);
INSERT INTO "tool_calls" VALUES(1,'01m7z1fc8cj2994603a9ves800',1,'add','{"a": 1, "b": 2}','t1');
CREATE TABLE "tool_instances" (
   "id" INTEGER PRIMARY KEY,
   "plugin" TEXT,
   "name" TEXT,
   "arguments" TEXT
);
CREATE TABLE "tool_responses" (
   "tool_id" INTEGER REFERENCES "tools"("id"),
   "response_id" TEXT REFERENCES "responses"("id"),
   PRIMARY KEY ("tool_id", "response_id")
);
INSERT INTO "tool_responses" VALUES(1,'01m7z1fc8cj2994603a9ves800');
INSERT INTO "tool_responses" VALUES(1,'01m7z1fcajjbaeb0wwp7dwgk5c');
CREATE TABLE "tool_results" (
   "id" INTEGER PRIMARY KEY,
   "response_id" TEXT REFERENCES "responses"("id"),
   "tool_id" INTEGER REFERENCES "tools"("id"),
   "name" TEXT,
   "output" TEXT,
   "tool_call_id" TEXT,
   "instance_id" INTEGER REFERENCES "tool_instances"("id")
, "exception" TEXT);
INSERT INTO "tool_results" VALUES(1,'01m7z1fcajjbaeb0wwp7dwgk5c',1,'add','3','t1',NULL,NULL);
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
INSERT INTO "tools" VALUES(1,'29106bdecf936cb9b8e4b0382377d56ab0d559bfcdbea4021b042bc9e5bb4665','add','adds','{"properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a", "b"], "type": "object"}',NULL);
CREATE UNIQUE INDEX "idx_fragments_hash"
    ON "fragments" ("hash");
CREATE UNIQUE INDEX "idx_tools_hash"
    ON "tools" ("hash");
COMMIT;
