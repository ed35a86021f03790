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
CREATE TABLE "conversations" (
   "id" TEXT PRIMARY KEY,
   "name" TEXT,
   "model" TEXT
);
INSERT INTO "conversations" VALUES('01m7z1cxza0mkpzs7kev8s8e29','Which [31mlamp[0m is lit?','echo-1');
INSERT INTO "conversations" VALUES('01m7z1cy1tstrxdrcyzpstw52q','A second chat','echo-1');
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
   "datetime_utc" TEXT
);
INSERT INTO "responses" VALUES('01m7z1cxzy92y08vhbyyfmrakt','echo-1','Which [31mlamp[0m is lit?','Be brief.',NULL,'{}','You said: Which [31mlamp[0m is lit?',NULL,'01m7z1cxza0mkpzs7kev8s8e29',0,'2026-11-21T12:30:47.787189');
INSERT INTO "responses" VALUES('01m7z1cy0v82jn83qh95q4k1px','echo-1','And <b>now</b>?',NULL,NULL,'{}','You said: And <b>now</b>?',NULL,'01m7z1cxza0mkpzs7kev8s8e29',0,'2026-11-21T12:30:47.834754');
INSERT INTO "responses" VALUES('01m7z1cy28vdv5xz1mh1mqca73','echo-1','A second chat',NULL,NULL,'{}','You said: A second chat',NULL,'01m7z1cy1tstrxdrcyzpstw52q',0,'2026-11-21T12:30:47.866247');
COMMIT;
